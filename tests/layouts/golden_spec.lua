-- golden_spec.lua: the reference values on other layouts than dp: whole decoders and single operations, in all types,
-- on tensor and sequence axes, their products with dp, every level of sharding, units.
local golden = os.getenv "LT_TEST_DATA"
local program = arg[-1]

local layouts = {
  "tp=2", "tp=3", "tp=4", "sp=2", "sp=3", "sp=4", "dp=4", "dp=2,tp=2,shard=1", "dp=2,sp=2,shard=2", "sp=2,tp=2,shard=3",
  "dp=3,tp=2,shard=2,units=2", "dp=2,sp=2,tp=2,shard=3,units=2", "sp=3,tp=2,shard=1",
}

describe("reference values", function()
  local f = assert(io.popen(string.format("'%s' --script '%s/golden.lua' '%s/golden' %s 2>&1", program, golden, golden,
    table.concat(layouts, " "))))
  local out = f:read "*a"
  f:close()
  for _, layout in ipairs(layouts) do
    it("hold on " .. layout, function()
      local ok, decoders = 0, 0
      for line in out:gmatch "[^\n]+" do
        local verdict, name, at = line:match "^(n?o?t? ?ok) (%S+) b?f%d+ (%S+) "
        if at == layout then
          assert.equal("ok", verdict, line)
          ok, decoders = ok + 1, decoders + (name:match "^decoder_" and 1 or 0)
        end
      end
      assert.is_true(ok >= 43, ok .. " files and types")
      assert.equal(15, decoders) -- dense, ignore, packed, tied, window, in all three types
    end)
  end
end)
