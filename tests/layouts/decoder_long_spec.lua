-- decoder_long_spec.lua: whole decoders on every layout of 1 to 4 ranks, and some of 6 and 8, against one rank, in
-- double: meshes x shards x units x recomputation, for every model. What decoder_spec.lua samples, whole.
local decoders = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/decoders.lua")

local small = {
  {}, { dp = 2 }, { sp = 2 }, { tp = 2 }, { dp = 3 }, { sp = 3 }, { tp = 3 }, { dp = 4 }, { sp = 4 }, { tp = 4 },
  { dp = 2, tp = 2 }, { dp = 2, sp = 2 }, { sp = 2, tp = 2 },
}
local large = {
  { dp = 6 }, { sp = 6 }, { tp = 6 }, { dp = 3, tp = 2 }, { dp = 2, tp = 3 }, { sp = 3, tp = 2 }, { sp = 2, tp = 3 },
  { dp = 2, sp = 3 }, { dp = 3, sp = 2 }, { tp = 8 }, { dp = 2, sp = 2, tp = 2 }, { dp = 4, tp = 2 },
  { sp = 4, tp = 2 }, { dp = 2, tp = 4 }, { dp = 2, sp = 4 },
}

for _, entry in ipairs(decoders.models) do
  local m = entry[2]
  describe("a decoder of " .. entry[1], function()
    for _, mesh in ipairs(small) do
      it("agrees with one rank on every layout of the mesh " .. decoders.text { mesh = mesh }, function()
        for shard = 0, next(mesh) and 3 or 0 do
          for _, units in ipairs { 1, 2, 4 } do
            for _, checkpoint in ipairs { false, "layers" } do
              decoders.check(m, { mesh = mesh, shard = shard, units = units, checkpoint = checkpoint or nil,
                block = mesh.sp and 1 + (shard + units) % 3 or nil })
            end
          end
        end
      end)
    end
    for i, mesh in ipairs(large) do
      it("agrees with one rank on " .. decoders.text { mesh = mesh }, function()
        for shard = 0, 3 do
          decoders.check(m, { mesh = mesh, shard = shard, units = 1 + (i + shard) % 2,
            checkpoint = shard == 2 and "layers" or nil })
        end
      end)
    end
  end)
end
