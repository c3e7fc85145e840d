-- exchange_spec.lua: attention over ranks of sp by every exchange, against one rank in double: outputs, log-sum-exps
-- and gradients. A sample of what exchange_long_spec.lua does whole; whole decoders; exchanges that differ by layer;
-- hops ahead; and that nothing depends on the order in which ranks take turns.
local here = os.getenv "LT_TEST_DATA" .. "/layouts/"
local attentions, decoders = dofile(here .. "attentions.lua"), dofile(here .. "decoders.lua")

-- Short lengths, most of which nothing divides, whole and packed; several sequences; positions with gaps.
local steps = {}
for _, n in ipairs { 1, 2, 3, 5, 8, 13, 19 } do
  steps[#steps + 1] = attentions.table_of(n, {})
  steps[#steps + 1] = attentions.table_of(n, { mean = 4, gaps = n % 2 == 0 })
end
steps[#steps + 1] = attentions.table_of(9, { rows = 3, mean = 5 })
steps[#steps + 1] = attentions.table_of(23, { mean = 7, apart = true })

describe("attention over sp", function()
  local partition = 0
  for _, exchange in ipairs(attentions.names) do
    it("agrees with one rank: " .. exchange, function()
      for _, sp in ipairs { 2, 3, 4 } do
        partition = partition % 4 + 1
        attentions.check({ mesh = { sp = sp }, exchange = exchange, partition = attentions.partitions[partition],
          inner = sp == 4 and 2 or nil, units = sp == 3 and 2 or 1, block = sp == 2 and 3 or 1 }, steps)
      end
    end)
  end
  it("agrees with one rank where most ranks have nothing", function()
    for _, exchange in ipairs(attentions.names) do
      attentions.check({ mesh = { sp = 4 }, exchange = exchange, inner = 2, partition = attentions.scattered, block = 2,
        max_share = 100, heads = attentions.few }, steps)
      attentions.check({ mesh = { sp = 8 }, exchange = exchange, inner = 4, partition = "contiguous", block = 5,
        heads = attentions.few }, steps)
    end
  end)
  it("agrees with one rank where a rank gives to more than may be under way at once", function()
    attentions.check({ mesh = { sp = 40 }, exchange = "direct", partition = "striped", heads = attentions.few },
      { attentions.table_of(83, {}) })
  end)
  it("agrees with one rank where every attention has its own exchange, beside dp and tp", function()
    local mixed = { "ring", "direct", "two_level", "all_gather", "ring", "ulysses", "direct", "two_level_ulysses" }
    attentions.check({ mesh = { dp = 2, sp = 4 }, exchange = mixed, inner = 2, partition = "zigzag", units = 2 }, steps)
    attentions.check({ mesh = { sp = 4, tp = 2 }, exchange = mixed, inner = 2, partition = "balanced",
      order = { "sp", "tp" } }, steps)
  end)
  it("agrees with one rank with hops ahead", function()
    for _, max_depth in ipairs { 2, 3, 8 } do
      for depth = 1, max_depth, max_depth - 1 do
        for _, exchange in ipairs(attentions.hops) do
          for inner = 2, exchange == "two_level" and 3 or 2 do
            attentions.check({ mesh = { sp = 6 }, exchange = exchange, inner = inner, partition = "striped",
              max_depth = max_depth, depth = depth, heads = attentions.few }, steps)
          end
        end
      end
    end
  end)
end)

describe("a decoder over sp", function()
  for i, entry in ipairs(decoders.models) do
    it("agrees with one rank by every exchange, whatever is computed again: " .. entry[1], function()
      local kept = { "none", "attention", "layers", "cheap" }
      for k, exchange in ipairs(attentions.names) do
        local sp = 2 + (i + k) % 3
        decoders.check(entry[2], { mesh = { sp = sp }, exchange = exchange, inner = sp == 4 and 2 or 1,
          partition = attentions.partitions[(i + k) % 4 + 1], checkpoint = kept[(i + 2 * k) % 4 + 1], units = k % 2 + 1,
          max_depth = k % 3 + 1 })
      end
      decoders.check(entry[2], { mesh = { dp = 2, sp = 2, tp = 2 }, exchange = { "ring", "direct" }, shard = 3,
        checkpoint = "attention", partition = "zigzag" })
      decoders.check(entry[2], { mesh = { sp = 4 }, inner = 2, exchange = { "two_level", "ulysses" }, units = 4,
        checkpoint = "layers" })
    end)
  end
end)

describe("the turns of ranks", function()
  local t = attentions.table_of(13, { rows = 6, mean = 5 })
  it("change no bit in 50 orders: a ring of 4 ranks, 4 units, two steps", function()
    local first = {} -- by max_depth, which is of the plan: where sums that come back are added follows from it
    for seed = 1, 50 do
      local max_depth = 1 + seed % 4
      local p = attentions.program({ mesh = { sp = 4 }, ranks = 4, exchange = "ring", units = 4, partition = "zigzag",
        max_depth = max_depth, depth = 1 + math.floor(seed / 4) % max_depth, seed = seed, heads = attentions.few,
        dtype = "f32" }, attentions.most { t })
      attentions.step(p, attentions.few, t, "f32")
      local got = attentions.step(p, attentions.few, t, "f32")
      p:close()
      first[max_depth] = first[max_depth] or got
      for name, x in pairs(first[max_depth]) do assert.is_true(x:equal(got[name]), name .. ", order " .. seed) end
    end
  end)
end)

-- Which rows travel is found in the step table, and spans count the keys that are there at a hop.
describe("hops", function()
  local op = lt.op
  local function refused(message, spans, exchange, options)
    local ok, e = pcall(function()
      local p = lt.program { dtype = "f64", ranks = 2, mesh = { sp = 2 }, block = 1, tokens = 8, sequences = 1,
        length = 8, build = function(ctx)
          local position = ctx:feed(options.position or "position", { dtype = "i32", tokens = true })
          local document, q = ctx:feed "document", ctx:feed("q", { dtype = "real", tokens = true, d1 = 2, granule = 2 })
          local runs = op.attention_spans(position, document, position, document, { block = 4, exchange = spans })
          local attributes = { head_dim = 2, block = 4, exchange = exchange }
          local out, lse = op.attention(q, q, q, position, document, position, document, runs, attributes)
          if options.sums then
            ctx:output("sums",
              op.attention_key_sums(q, q, position, document, position, document, runs, nil, lse, attributes))
          end
          ctx:loss(op.sum(out, { dim = -1 }))
        end }
      p:bind("q", lt.tensor.zeros({ 8, 2 }, "f64"))
      if options.bound then p:bind("position", lt.tensor.zeros({ 8 }, "i32")) end
      p:step(lt.data.tensors { tokens = lt.tensor.zeros({ 1, 8 }, "i32") })
      p:close()
    end)
    assert.equal(message == nil, ok, e)
    if message then assert.matches(message, tostring(e), 1, true) end
  end
  it("take no spans of another exchange, nor positions that are not the step table's", function()
    refused("attention: the spans are of another exchange\n  expected ring, got all_gather", "all_gather", "ring", {})
    refused("attention_key_sums has no hops", "direct", "direct", { sums = true })
    refused("positions and documents that are not the step table's cannot be exchanged", "ring", "ring",
      { position = "place" })
    refused("feed 'position' is bound, but hops carry the rows", "two_level", "two_level", { bound = true })
    refused(nil, "ring", "ring", {})
    refused(nil, "all_gather", "all_gather", { bound = true, sums = true })
  end)
end)
