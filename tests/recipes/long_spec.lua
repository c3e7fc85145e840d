-- long_spec.lua: recipes/long_8k.lua, long_128k.lua, million.lua on short texts: they start, and do as their heads say.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"
local root = os.getenv "LT_TEST_DATA" .. "/../recipes/"

describe("the recipe", function()
  local folder
  setup(function() folder = command.scratch() end)
  teardown(function() command.remove(folder) end)

  local function train(name, arguments)
    local run = folder .. "/" .. name
    local status, said = command.run(folder, string.format("'%s%s.lua' --run %s %s", root, name, run, arguments))
    assert.equal(0, status, said)
    local _, records = command.metrics(run)
    return records
  end

  it("long_8k.lua grows in the middle of a run", function()
    local r = train("long_8k", "at=2 long=4096 --steps 4 --set train.tokens=4096 --set train.eval_tokens=4096")
    assert.is_true(r[3].memory > 1.3 * r[2].memory, r[3].memory .. " after " .. r[2].memory)
    assert.is_true(r[4].loss < r[1].loss - 0.1)
  end)

  for _, name in ipairs { "long_128k", "million" } do
    it(name .. ".lua shares a sequence out", function()
      local one = train(name, "n=2048 --steps 1")
      os.execute("rm -rf " .. folder .. "/" .. name)
      local two = train(name, "n=2048 --steps 1 --ranks 2")
      assert.is_true(two[1].memory < 0.75 * one[1].memory, two[1].memory .. " of " .. one[1].memory)
      assert.is_true(two[1].comm.sent > 0)
      assert.is_true(math.abs(one[1].loss - math.log(256)) < 0.2 and math.abs(two[1].loss - one[1].loss) < 1e-3)
    end)
  end
end)
