-- place_spec.lua: layout.place: parameters placed on tp by name, over what their layers say: the same results, other
-- bytes; and what it refuses.
local decoders = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/decoders.lua")

describe("layout.place", function()
  local m = decoders.models[3][2]
  local places = {
    ["everything replicated"] = { ["*"] = "replicated" },
    ["a replicated layer"] = { ["model.layers.0.*"] = "replicated" },
    ["heads replicated"] = { ["*q_proj*"] = "replicated", ["*k_proj*"] = "replicated", ["*v_proj*"] = "replicated" },
    ["keys replicated"] = { ["*k_proj*"] = "replicated" },
    ["the feed-forward the other way round"] = {
      ["*up_proj.weight"] = { tp = "in" }, ["*up_proj.bias"] = "replicated", ["*down_proj.weight"] = { tp = "out" },
    },
    ["the table by its width"] = { ["model.embed_tokens.weight"] = { tp = 1 } },
    ["the head by its width"] = { ["lm_head.weight"] = { tp = 1 } },
    ["one weight shared out, one not"] = { ["lm_head.weight"] = { shard = 3 }, ["*q_proj.weight"] = { shard = 0 },
      ["model.layers.0.*"] = { tp = false } },
    ["norms cut"] = { ["*layernorm.weight"] = { tp = 0 }, ["*layernorm.bias"] = { tp = 0 } },
  }
  local names = {}
  for name in pairs(places) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("changes no result: " .. name, function()
      local place, seen = places[name], {}
      for _, mesh in ipairs { { tp = 2 }, { tp = 3 }, { dp = 2, tp = 2 }, { sp = 2, tp = 2 } } do
        for _, shard in ipairs { 0, 3 } do
          local memory, traffic = decoders.check(m, { mesh = mesh, place = place, shard = shard })
          local plain, other = decoders.check(m, { mesh = mesh, shard = shard })
          seen[#seen + 1] = memory.peak ~= plain.peak or traffic[1].sent ~= other[1].sent
        end
      end
      for i, differs in ipairs(seen) do assert.is_true(differs, "layout " .. i .. " is as it was") end
    end)
  end
  it("cuts nothing but tokens when all is replicated", function()
    local memory = decoders.check(m, { mesh = { tp = 2 }, place = { ["*"] = "replicated" } })
    local _, whole = decoders.one(m)
    assert.equal(whole.ranks[1].states, memory.ranks[1].states)
  end)
  local function refuse(place, what)
    local ok, e = pcall(decoders.check, m, { mesh = { tp = 2 }, place = place })
    assert.is_false(ok)
    assert.matches(what, e, 1, true)
  end
  it("shares out over data ranks the parameters it names, and no others", function()
    local function states(place, shard)
      local memory = decoders.check(m, { mesh = { dp = 2 }, place = place, shard = shard })
      return memory.ranks[1].states
    end
    local none, all = states(nil, 0), states(nil, 3)
    assert.equal(all, states({ ["*"] = { shard = 3 } }, 0))
    assert.equal(none, states({ ["*"] = { shard = 0 } }, 3))
    local some = states({ ["lm_head.weight"] = { shard = 3 } }, 0)
    assert.is_true(all < some and some < none)
  end)
  it("refuses what is no placement, no name, no dimension, two minds", function()
    refuse({ ["*"] = "sharded" }, "is no placement")
    refuse({ ["*"] = { dp = 1 } }, "is no placement")
    refuse({ ["*"] = { shard = 4 } }, "is no placement")
    refuse({ ["*"] = {} }, "is no placement")
    refuse({ ["*.mlp.*"] = { shard = 1 }, ["*up_proj.weight"] = { shard = 2 } }, "two patterns place")
    refuse({ ["model.layers.7.*"] = "replicated" }, "no parameter has such a name")
    refuse({ ["model.norm.weight"] = { tp = 1 } }, "'model.norm.weight' has no such dimension")
    refuse({ ["*.mlp.*"] = "replicated", ["*up_proj.weight"] = { tp = 0 } }, "two patterns place")
  end)
end)
