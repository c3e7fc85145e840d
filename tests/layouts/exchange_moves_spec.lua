-- exchange_moves_spec.lua: what hops send is what somebody sees, counted by hand from positions, documents and who
-- holds which token: bytes sent and received by every rank in a step. And in closed form: where all but the last rows
-- are seen, in double, float32 and bf16, and a window's borders. What else a step sends: no document crosses a border.
local attentions = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/attentions.lua")

-- A token is seen by a member that holds a later one of its document, not further than the window: seen[owner][member].
local function seen_by(step, owner, ranks, window)
  local seen = {}
  for o = 0, ranks - 1 do
    seen[o] = {}
    for m = 0, ranks - 1 do seen[o][m] = {} end
  end
  for key = 1, step.tokens do
    for query = key, step.tokens do
      local apart = step.position[query] - step.position[key]
      local same = step.document[query] == step.document[key] and
        math.floor((query - 1) / step.row) == math.floor((key - 1) / step.row)
      if same and (window == 0 or apart < window) then seen[owner[key]][owner[query]][key] = true end
    end
  end
  return seen
end

local function size_of(sets)
  local all, n = {}, 0
  for _, set in ipairs(sets) do
    for key in pairs(set) do
      if not all[key] then all[key], n = true, n + 1 end
    end
  end
  return n
end

-- Every way that rows go, forward: visit(from, to, rows), those that somebody further on sees among them; and back,
-- of what a member saw itself, or with two levels its group: visit_back(from, to, rows).
local function each_way(exchange, ranks, inner, seen, visit, visit_back)
  for o = 0, ranks - 1 do
    if exchange == "ring" then
      for h = 1, ranks - 1 do
        local sets = {}
        for later = h, ranks - 1 do sets[#sets + 1] = seen[o][(o + later) % ranks] end
        visit((o + h - 1) % ranks, (o + h) % ranks, size_of(sets))
        visit_back((o + h) % ranks, o, size_of { seen[o][(o + h) % ranks] })
      end
    elseif exchange == "direct" then
      for m = 0, ranks - 1 do
        if m ~= o then
          visit(o, m, size_of { seen[o][m] })
          visit_back(m, o, size_of { seen[o][m] })
        end
      end
    else
      for group = 0, ranks / inner - 1 do
        local first, sets = group * inner, {}
        local holder = first + o % inner
        for i = 0, inner - 1 do
          local m = first + i
          sets[#sets + 1] = seen[o][m]
          if m ~= holder then
            visit(holder, m, size_of { seen[o][m] })
            visit_back(m, holder, size_of { seen[o][m] })
          end
        end
        if holder ~= o then
          visit(o, holder, size_of(sets))
          visit_back(holder, o, size_of(sets))
        end
      end
    end
  end
end

-- → bytes that each rank sends and receives in a step, in double: rows of k, v and the bias there, again in the
-- backward pass, and their gradients back; rows that go forward
local function bytes_of(exchange, ranks, inner, seen, h)
  local bytes = 8 * (2 * h.kv * attentions.dim + (h.bias and h.kv or 0))
  local sent, received, forward = {}, {}, 0
  for r = 0, ranks - 1 do sent[r], received[r] = 0, 0 end
  local function move(times)
    return function(from, to, rows)
      sent[from], received[to] = sent[from] + times * rows * bytes, received[to] + times * rows * bytes
      if times == 2 then forward = forward + rows end
    end
  end
  each_way(exchange, ranks, inner, seen, move(2), move(1))
  return sent, received, forward
end

-- Traffic of one step of one attention: less what the loss costs.
local function moved(layout, step)
  local alone = attentions.table_of(step.tokens, { mean = 1 })
  layout.ranks = layout.mesh.sp
  local p = attentions.program(layout, attentions.most { step, alone })
  local before, after
  local fed = layout.dtype and "f32"
  attentions.step(p, layout.heads, alone, fed)
  before = p:traffic()
  attentions.step(p, layout.heads, step, fed)
  after = p:traffic()
  p:close()
  local sent, received = {}, {}
  for r, t in ipairs(after) do
    sent[r - 1] = t.sent - 2 * before[r].sent
    received[r - 1] = t.received - 2 * before[r].received
  end
  return sent, received
end

describe("what hops carry", function()
  local steps = {
    whole = attentions.table_of(24, {}), packed = attentions.table_of(29, { mean = 6, seed = 3 }),
    gaps = attentions.table_of(26, { mean = 9, gaps = true }), rows = attentions.table_of(11, { rows = 3, mean = 7 }),
  }
  local deals = {
    striped = function(b, s) return (b - 1) % s.ranks end,
    contiguous = function(b, s) return math.floor((b - 1) * s.ranks / s.blocks) end,
    scattered = function(b, s) return (b * b + s.tokens) % 7 % s.ranks end,
  }
  for _, exchange in ipairs(attentions.hops) do
    it("is what is seen, to the row, by " .. exchange, function()
      local cases, rows = 0, 0
      for name, step in pairs(steps) do
        for deal, rank_of in pairs(deals) do
          for _, ranks in ipairs { 2, 3, 4, 6 } do
            local h = { kv = 2, q = 4, window = cases % 3 == 0 and 0 or 4, bias = cases % 2 == 0 }
            local inners = { [2] = 1, [3] = 3, [4] = 2, [6] = cases % 2 + 2 }
            local inner = exchange == "two_level" and inners[ranks] or nil
            local owner = {}
            local function partition(s)
              local to = {}
              for b = 1, s.blocks do
                to[b] = rank_of(b, s)
                owner[s.index * step.row + b] = to[b]
              end
              return to
            end
            local sent, received = moved({ mesh = { sp = ranks }, exchange = exchange, inner = inner, heads = { h },
              partition = partition, max_share = 100, units = name == "rows" and 2 or 1 }, step)
            local want_sent, want_received, forward =
              bytes_of(exchange, ranks, inner, seen_by(step, owner, ranks, h.window), h)
            local text = ("%s, %s, %d ranks, window %d"):format(name, deal, ranks, h.window)
            assert.same(want_sent, sent, text)
            assert.same(want_received, received, text)
            cases, rows = cases + 1, rows + forward
          end
        end
      end
      assert.equal(48, cases)
      assert.is_true(rows > 0)
    end)
  end

  local h = { kv = 3, q = 3, window = 0 }
  local width = 3 * attentions.dim * 8
  local function total(bytes)
    local sum = 0
    for _, n in pairs(bytes) do sum = sum + n end
    return sum
  end
  -- 2 S kv_width (N - 1) / N elements a rank forward, that again backward, and as much back, in float32 where the
  -- rest is bf16; less what nobody sees: of every two members the last row of the later one.
  it("is all but the last rows of a whole sequence, striped", function()
    for _, ranks in ipairs { 2, 4, 8 } do
      local tokens = 48 * ranks
      local step = attentions.table_of(tokens, {})
      local rows = (ranks - 1) * tokens - ranks * (ranks - 1) / 2
      for dtype, bytes in pairs { f64 = { 8, 8 }, f32 = { 4, 4 }, bf16 = { 2, 4 } } do -- there, back
        for _, exchange in ipairs { "ring", "direct" } do
          local sum = total((moved({ mesh = { sp = ranks }, exchange = exchange, heads = { h }, partition = "striped",
            dtype = dtype ~= "f64" and dtype or nil }, step)))
          local want = 2 * rows * h.kv * attentions.dim * (2 * bytes[1] + bytes[2])
          assert.equal(want, sum, ("%s, %s, %d ranks"):format(dtype, exchange, ranks))
        end
      end
    end
  end)
  it("is at most a window at every border of contiguous shares", function()
    for _, ranks in ipairs { 2, 4, 8 } do
      local step = attentions.table_of(32 * ranks, {})
      for _, window in ipairs { 1, 2, 9, 32 } do
        local heads = { { kv = 3, q = 3, window = window } }
        for _, exchange in ipairs { "ring", "direct" } do
          local sum = total((moved({ mesh = { sp = ranks }, exchange = exchange, heads = heads,
            partition = "contiguous" }, step)))
          assert.equal(3 * 2 * (window - 1) * width * (ranks - 1), sum, exchange .. ", window " .. window)
        end
      end
    end
  end)
end)
