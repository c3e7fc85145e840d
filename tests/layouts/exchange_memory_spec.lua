-- exchange_memory_spec.lua: with as many tokens a rank, a rank of a longer ring needs no more memory: not for the whole
-- step of a decoder, nor for the slots of keys and values, of which max_depth says how many there are.
local attentions = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/attentions.lua")
local decoders = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/decoders.lua")
local lt = require "ltrain"

local function peak(p)
  local most = 0
  for _, r in ipairs(p:memory().ranks) do most = math.max(most, r.arena) end
  p:close()
  return most
end

describe("memory", function()
  local model = decoders.model { heads = 4, kv_heads = 2, attention = { block = 64 } }
  local function decoder(exchange, sp, tokens, checkpoint)
    local optim = lt.check(lt.optim.adamw { lr = 0.01 }, "optim")
    return peak(lt.program { dtype = "f32", ranks = sp, mesh = { sp = sp }, inner = sp % 2 == 0 and 2 or 1,
      exchange = exchange, partition = "zigzag", tokens = tokens * sp, sequences = 1, length = tokens * sp, block = 8,
      max_share = 1, checkpoint = checkpoint, build = function(ctx)
        lt.nn.build(ctx, model)
        lt.optim.build(ctx, optim)
      end })
  end
  for _, exchange in ipairs(attentions.hops) do
    it("of a step is flat in the ranks, by " .. exchange, function()
      local two = decoder(exchange, 2, 1024)
      for _, sp in ipairs { 4, 8 } do
        local more = decoder(exchange, sp, 1024)
        assert.is_true(math.abs(more / two - 1) <= 0.03, ("%d ranks: %g, two: %g"):format(sp, more, two))
      end
      assert.is_true(decoder("all_gather", 8, 1024) > 1.2 * two) -- what holds all keys can be told
    end)
  end

  it("of a layer that is computed again is the same by ring and direct: what was given is let go", function()
    local more = {}
    for _, exchange in ipairs { "ring", "direct" } do
      model.layers = 2
      local two = decoder(exchange, 4, 1024, "layers")
      model.layers = 6
      more[exchange] = decoder(exchange, 4, 1024, "layers") - two
    end
    model.layers = 2
    assert.equal(more.ring, more.direct)
  end)

  local heads = { { kv = 8, q = 8, window = 0 } }
  local function slots(exchange, sp, max_depth)
    local layout = { mesh = { sp = sp }, ranks = sp, exchange = exchange, dtype = "f32", heads = heads,
      partition = "zigzag", block = 8, max_share = 1, max_depth = max_depth }
    return peak(attentions.program(layout, { tokens = 256 * sp, sequences = 1, length = 256 * sp }))
  end
  -- By a ring gradients are three, and there is room to pack.
  it("of hops ahead is a slot of keys and values and one of their gradients each", function()
    local slot = 256 * 2 * 8 * attentions.dim * 4
    for exchange, slots_each in pairs { ring = { 2, 5 }, direct = { 1.5, 2.1 } } do
      local most = {}
      for depth = 1, 4 do most[depth] = slots(exchange, 16, depth) end
      for depth = 2, 4 do
        local more = (most[depth] - most[depth - 1]) / slot
        assert.is_true(more > slots_each[1] and more < slots_each[2], exchange .. " " .. depth .. ": " .. more)
      end
      assert.is_true(math.abs(most[4] - slots(exchange, 12, 4)) < slot / 2) -- not of all ranks
    end
  end)
end)
