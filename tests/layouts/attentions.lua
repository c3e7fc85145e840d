-- attentions.lua: bare attention over given queries, keys and values on a layout, held against one rank: for the
-- specs of exchanges. One program holds attentions of several numbers of kv heads, with and without a window, with and
-- without a bias for each key; every length is a step of it. Outputs, log-sum-exps and all gradients are compared, not
-- a loss alone.
local lt = require "ltrain"
local op = lt.op

local attentions = {}

local DIM, BLOCK = 2, 4 -- of a head; rows of a block of the spans: small, so that there are several

-- Heads of queries and of keys: every head its own, groups of 2 and 3; one with a window, and one with a bias.
attentions.heads = {
  { kv = 1, q = 3, window = 0 }, { kv = 1, q = 2, window = 5 }, { kv = 2, q = 4, window = 0 },
  { kv = 2, q = 2, window = 3, bias = true }, { kv = 3, q = 3, window = 0, bias = true }, { kv = 3, q = 6, window = 2 },
  { kv = 8, q = 8, window = 0 }, { kv = 8, q = 8, window = 7 },
}
-- The same kinds, a quarter of the work.
attentions.few = { { kv = 1, q = 3, window = 0 }, { kv = 2, q = 2, window = 3, bias = true } }

attentions.names = { "all_gather", "ring", "direct", "two_level", "ulysses", "two_level_ulysses" }
attentions.hops = { "ring", "direct", "two_level" }
attentions.partitions = { "contiguous", "zigzag", "striped", "balanced" }

-- A partition that no rule gave: some ranks get much, some nothing.
function attentions.scattered(s)
  local owner = {}
  for b = 1, s.blocks do owner[b] = (b * b + s.tokens) % 7 % s.ranks end
  return owner
end

-- ---- Steps ----

local function numbers(seed)
  local x = seed * 7919 + 1
  return function(n)
    x = (x * 16807 + 11) % 2147483647
    return math.floor(x / 2147483647 * n)
  end
end

-- A step of one sequence of `tokens` tokens, or of several: { rows = 3 }; documents begin with one chance in `mean`
-- (nil: a sequence is one), apart = true: every document is a sequence of its own; gaps: positions are left out.
function attentions.table_of(tokens, kind)
  local draw, rows = numbers(tokens + (kind.seed or 0)), kind.rows or 1
  local document, position = {}, {}
  for i = 1, tokens * rows do
    local first = (i - 1) % tokens == 0
    local begins = first or (kind.mean and draw(kind.mean) == 0)
    document[i] = first and 0 or document[i - 1] + (begins and 1 or 0)
    position[i] = begins and draw(kind.gaps and 5 or 1) or position[i - 1] + 1 + (kind.gaps and draw(3) or 0)
  end
  local shape = { rows, tokens }
  local t = {
    tokens = lt.tensor.zeros(shape, "i32"), documents = lt.tensor(document, "i32"):reshape(shape),
    positions = lt.tensor(position, "i32"):reshape(shape), split = kind.apart and "documents" or nil,
  }
  return { table = lt.data.tensors(t), tokens = tokens * rows, document = document, position = position,
    seed = tokens * 31 + (kind.seed or 0), row = tokens }
end

-- ---- Programs ----

local function name_of(h, what) return ("%s of %d/%d heads, window %d"):format(what, h.q, h.kv, h.window) end

local tensors_of = { "q", "k", "v", "dout", "bias" }

local function width_of(h, what)
  if what == "q" or what == "dout" then return h.q * DIM, h.q / h.kv * DIM end
  if what == "bias" then return h.kv, 1 end
  return h.kv * DIM, DIM
end

local function build_one(ctx, h, exchange)
  local v = {}
  for _, what in ipairs(tensors_of) do
    if what ~= "bias" or h.bias then
      local width, granule = width_of(h, what)
      local name = name_of(h, what)
      v[what] = ctx:feed(name, { dtype = "real", tokens = true, d1 = width, granule = granule })
      if what ~= "dout" then ctx:want(v[what], "grad " .. name) end
    end
  end
  local position, document = ctx:feed "position", ctx:feed "document"
  local spans = ctx:spans(h.window, BLOCK, exchange)
  local out, lse = op.attention(v.q, v.k, v.v, position, document, position, document, spans, v.bias,
    { head_dim = DIM, window = h.window, block = BLOCK, exchange = exchange })
  ctx:output(name_of(h, "out"), out)
  ctx:output(name_of(h, "lse"), lse)
  return op.sum(op.mul(out, v.dout), { dim = -1 })
end

-- layout: { mesh, ranks, order, exchange (a name, or one for each of `heads`), inner, max_depth, depth, partition,
-- max_share, block, units, checkpoint, dtype, seed, heads }, for steps of at most `most`.
function attentions.program(layout, most)
  local heads = layout.heads or attentions.heads
  return lt.program {
    dtype = layout.dtype or "f64", ranks = layout.ranks, mesh = layout.mesh, order = layout.order, seed = layout.seed,
    inner = layout.inner, max_depth = layout.max_depth, depth = layout.depth, partition = layout.partition,
    max_share = layout.max_share, block = layout.block or 1, units = layout.units, checkpoint = layout.checkpoint,
    world = layout.world, tokens = most.tokens, sequences = most.sequences, length = most.length,
    build = function(ctx)
      local loss
      for i, h in ipairs(heads) do
        local exchange = type(layout.exchange) == "table" and layout.exchange[i] or layout.exchange or "all_gather"
        local part = build_one(ctx, h, exchange)
        loss = loss and loss + part or part
      end
      ctx:loss(loss)
    end,
  }
end

-- What a step is fed, by name: the same whatever the layout. step.scale: of the queries.
function attentions.arrays(heads, step)
  step.fed = step.fed or {}
  local fed = {}
  for i, h in ipairs(heads) do
    for j, what in ipairs(tensors_of) do
      if what ~= "bias" or h.bias then
        local width = width_of(h, what)
        local key = ("%d %d %d"):format(width, j, i)
        local x = step.fed[key]
        if not x then
          local draw, data = numbers(step.seed + 101 * i + 1009 * j), {}
          local size = (what == "q" and step.scale or 1) / 500
          for n = 1, step.tokens * width do data[n] = (draw(1000) - 499.5) * size end
          x = lt.tensor(data, "f64"):reshape { step.tokens, width }
          step.fed[key] = x
        end
        fed[name_of(h, what)] = x
      end
    end
  end
  return fed
end

-- Run a step → what came of it, by name; fed: other arrays than its own.
function attentions.step(p, heads, step, dtype, fed)
  for name, x in pairs(fed or attentions.arrays(heads, step)) do
    p:bind(name, (dtype or "f64") == "f64" and x or x:cast(dtype))
  end
  p:step(step.table)
  local got = {}
  for _, h in ipairs(heads) do
    for _, what in ipairs { "out", "lse", "grad q", "grad k", "grad v", h.bias and "grad bias" or nil } do
      got[name_of(h, what)] = p:output(name_of(h, what))
    end
  end
  return got
end

attentions.name, attentions.dim = name_of, DIM -- of an array of one of `heads`; features of a head

-- The largest room that steps need.
function attentions.most(steps)
  local most = { tokens = 0, sequences = 0, length = 0 }
  for _, s in ipairs(steps) do
    most.tokens = math.max(most.tokens, s.table.tokens)
    most.sequences = math.max(most.sequences, s.table.sequences)
    most.length = math.max(most.length, s.table.longest)
  end
  return most
end

-- ---- Against one rank ----

-- What one rank makes of a step: made once, each of it there and not zero.
local function one(steps, heads)
  steps.one = steps.one or {}
  if steps.one[heads] then return steps.one[heads] end
  local p, got = attentions.program({ heads = heads }, attentions.most(steps)), {}
  for i, s in ipairs(steps) do
    got[i] = attentions.step(p, heads, s)
    for name, x in pairs(got[i]) do
      local dead = x:max_abs() == 0 and not (s.tokens <= 2 and name:match "^grad")
      assert(not dead, "one rank: " .. name .. " is zero")
    end
  end
  p:close()
  steps.one[heads] = got
  return got
end

function attentions.text(layout)
  local parts = {}
  for _, key in ipairs { "dp", "sp", "tp" } do
    if layout.mesh[key] then parts[#parts + 1] = key .. " " .. layout.mesh[key] end
  end
  for _, key in ipairs { "exchange", "inner", "partition", "block", "units", "max_depth", "depth", "checkpoint" } do
    local x = layout[key]
    if x then parts[#parts + 1] = key .. " " .. (type(x) == "table" and table.concat(x, " ") or tostring(x)) end
  end
  return table.concat(parts, ", ")
end

local function worlds(mesh)
  local n = 1
  for _, size in pairs(mesh) do n = n * size end
  return n
end

-- Every step on a layout, against one rank to 1e-10 of a tensor's largest magnitude; → steps compared, traffic, memory
function attentions.check(layout, steps)
  local heads = layout.heads or attentions.heads
  local expected = one(steps, heads)
  layout.ranks = worlds(layout.mesh)
  local ok, p = pcall(attentions.program, layout, attentions.most(steps))
  if not ok then error(attentions.text(layout) .. ": " .. tostring(p), 0) end
  for i, s in ipairs(steps) do
    local good, got = pcall(attentions.step, p, heads, s)
    if not good then error(("%s, %d tokens: %s"):format(attentions.text(layout), s.tokens, tostring(got)), 0) end
    for name, x in pairs(expected[i]) do
      local d, most = got[name]:max_abs_difference(x), x:max_abs()
      if d ~= d or d > 1e-10 * math.max(most, 1e-3) then
        error(("%s, step %d of %d tokens: %s is off by %g of %g"):format(attentions.text(layout), i, s.tokens, name, d,
          most), 0)
      end
    end
  end
  local traffic, memory = p:traffic(), p:memory()
  p:close()
  return #steps, traffic, memory
end

return attentions
