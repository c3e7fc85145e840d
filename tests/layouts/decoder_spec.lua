-- decoder_spec.lua: whole decoders on 2 to 4 ranks against one, in double: losses, norms, every gradient, what three
-- steps make of parameters and moments. A part of the product of all layouts; the rest is decoder_long_spec.lua.
local decoders = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/decoders.lua")

local meshes = {
  { dp = 2 }, { sp = 2 }, { tp = 2 }, { dp = 3 }, { sp = 3 }, { tp = 3 }, { dp = 4 }, { sp = 4 }, { tp = 4 },
  { dp = 2, tp = 2 }, { dp = 2, sp = 2 }, { sp = 2, tp = 2 },
}
local units, checkpoints = { 1, 2, 4 }, { false, "layers" }

describe("a decoder on several ranks", function()
  for i, entry in ipairs(decoders.models) do
    local m = entry[2]
    for j, mesh in ipairs(meshes) do
      it("agrees with one rank: " .. entry[1] .. ", " .. decoders.text { mesh = mesh }, function()
        for shard = 0, 3 do
          local turn = i + j + shard -- units, recomputation and blocks go round: every pair meets somewhere
          decoders.check(m, {
            mesh = mesh, shard = shard, units = units[turn % 3 + 1], checkpoint = checkpoints[turn % 2 + 1] or nil,
            block = mesh.sp and ({ 1, 3 })[math.floor(turn / 2) % 2 + 1] or nil,
          })
        end
      end)
    end
    it("agrees with one rank in units and recomputed: " .. entry[1], function()
      for _, n in ipairs { 2, 4 } do decoders.check(m, { mesh = {}, units = n }) end
      decoders.check(m, { mesh = {}, units = 2, checkpoint = "layers" })
    end)
  end
  it("agrees whatever the order of ranks", function()
    decoders.check(decoders.models[1][2], { mesh = { dp = 2, tp = 2 }, order = { "dp", "tp" }, shard = 2 })
    decoders.check(decoders.models[3][2], { mesh = { sp = 2, tp = 2 }, order = { "sp", "tp" }, shard = 3 })
  end)
end)

describe("the work", function()
  local m = decoders.models[3][2]
  local whole = decoders.plan(m, { ranks = 1 })
  local function share(mesh)
    local plan = decoders.plan(m, { ranks = 3, mesh = mesh })
    return plan.rest / whole.rest, plan.states / whole.states
  end
  it("is split over dp and sp: tokens", function()
    assert.is_true(share { dp = 3 } < 0.4)
    assert.is_true(share { sp = 3 } < 0.5) -- keys and values are gathered
  end)
  it("is split over tp: weights and what they make", function()
    local rest, states = share { tp = 3 }
    assert.is_true(rest < 0.6)
    assert.is_true(states < 0.5)
  end)
  it("moves over tp exactly what its scheme needs", function()
    local sent, needed, placed = decoders.tensor_traffic(20)
    assert.same({ needed, needed }, sent)
    local forward = placed:match "\nforward.-\nbackward"
    assert.matches("tp:S0 = add(", forward, 1, true)
    assert.not_matches("P%(sum%) = add%(", forward) -- the residual stream is never a part of a sum
  end)
  it("moves bytes between all ranks", function()
    for _, mesh in ipairs { { dp = 3 }, { sp = 3 }, { tp = 3 } } do
      local _, traffic = decoders.check(m, { mesh = mesh })
      for rank, t in ipairs(traffic) do assert.is_true(t.sent > 0 and t.received > 0, "rank " .. rank) end
    end
  end)
end)
