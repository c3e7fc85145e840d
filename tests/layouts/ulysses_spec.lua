-- ulysses_spec.lua: decoders whose attention is cut by heads on sp, or by heads on its inner part and by rows on the
-- outer one, against one rank in double: uneven heads, more ranks than heads, beside tp and dp. The rest:
-- ulysses_long_spec.lua.
local exchanges = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/exchanges.lua")
local decoders, models = exchanges.decoders, exchanges.models

describe("heads cut on sp", function()
  local meshes = { { sp = 2 }, { sp = 3 }, { sp = 4 }, { sp = 2, tp = 2 }, { sp = 3, tp = 2 }, { dp = 2, sp = 2 } }
  for i, entry in ipairs(models) do
    it("agree with one rank: " .. entry[1], function()
      for j, mesh in ipairs(meshes) do
        local turn = i + j
        decoders.check(entry[2], { mesh = mesh, exchange = "ulysses", shard = turn % 4, units = turn % 2 + 1,
          checkpoint = turn % 3 == 0 and "layers" or nil, block = 1 + turn % 3 })
      end
    end)
  end
  it("agree with one rank where ranks are more than heads", function()
    decoders.check(models[4][2], { mesh = { sp = 8 }, exchange = "ulysses" }) -- 2 query heads, 1 kv head
    decoders.check(models[5][2], { mesh = { sp = 4, tp = 2 }, exchange = "ulysses" })
  end)
end)

describe("heads cut on the inner part of sp, rows on the outer", function()
  for i, entry in ipairs(models) do
    it("agree with one rank: " .. entry[1], function()
      decoders.check(entry[2], { mesh = { sp = 4 }, exchange = "two_level_ulysses", inner = 2, shard = i % 4,
        units = i % 2 + 1, partition = i % 2 == 0 and "zigzag" or nil, checkpoint = i % 3 == 0 and "layers" or nil })
    end)
  end
  it("agree with one rank beside tp and dp", function()
    decoders.check(models[1][2], { mesh = { sp = 4, tp = 2 }, exchange = "two_level_ulysses", inner = 2 })
    decoders.check(models[3][2], { mesh = { dp = 2, sp = 4 }, exchange = "two_level_ulysses", inner = 2, shard = 3 })
    decoders.check(models[7][2], { mesh = { sp = 6 }, exchange = "two_level_ulysses", inner = 3 })
  end)
end)

describe("layers of one model", function()
  it("have each its exchange", function()
    for _, list in ipairs { { "ulysses", "all_gather" }, { "all_gather", "two_level_ulysses" },
      { "two_level_ulysses", "ulysses" } } do
      decoders.check(models[5][2], { mesh = { sp = 4 }, exchange = list, inner = 2 })
      decoders.check(models[6][2], { mesh = { sp = 4 }, exchange = list, inner = 2 })
    end
  end)
end)

describe("what is moved", function()
  local tokens, dim, heads, kv_heads, ranks, layers = 24, 4, 8, 8, 4, 2
  local m = decoders.model { heads = heads, kv_heads = kv_heads, head_dim = dim, attention = {} }
  local layout = { ranks = ranks, mesh = { sp = ranks } }
  local function sent(exchange)
    layout.exchange = exchange
    return decoders.traffic(m, tokens, layout)
  end
  it("is a rank's share of q, k, v and out, and of their gradients, instead of all keys and values", function()
    local gathered, by_rows = sent "all_gather"
    local exchanged, by_heads = sent "ulysses"
    local q, kv, part = heads * dim, 2 * kv_heads * dim, (ranks - 1) / ranks
    local less = 8 * layers * tokens * part * (2 * kv - (4 * q + 2 * kv) / ranks)
    for r = 1, ranks do assert.equal(less, gathered[r] - exchanged[r]) end
    assert.matches("all_to_all(", by_heads, 1, true)
    assert.not_matches("all_to_all(", by_rows, 1, true)
    assert.matches("f64[tokens, 8] sp_o:S1 = attention(", by_heads, 1, true) -- of lse: no rank has all heads
  end)
end)
