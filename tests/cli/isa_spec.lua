-- isa_spec.lua: LTRAIN_ISA and device.isa choose the kernels; a name that this machine has no kernels for is refused.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local function run(isa)
  local pipe = assert(io.popen("LTRAIN_ISA=" .. isa .. " '" .. command.path .. "' --version 2>&1; echo status $?"))
  local text = pipe:read "*a"
  pipe:close()
  return text
end

describe("LTRAIN_ISA", function()
  it("takes what every machine has", function()
    assert.match("ltrain [%d.]+\n.*kernels +portable.*status 0", run "portable")
    assert.match("status 0", run "auto")
  end)
  it("is refused where it names nothing, with what there is", function()
    local text = run "altivec"
    assert.match("altivec", text)
    assert.match("portable", text)
    assert.match("status 2", text)
  end)
end)

local recipe = [[
return {
  seed = 3, data = { train = "text/*.txt", length = 32 },
  model = lt.nn.decoder { vocab = 256, width = 32, layers = 1, heads = 2, ffn = lt.nn.swiglu { hidden = 48 } },
  optim = lt.optim.adamw { lr = 1e-2 }, train = { tokens = 256, steps = 40 },
}
]]

describe("device.isa", function()
  local folder, runs = nil, 0
  setup(function()
    folder = command.scratch()
    command.write_text(folder)
    command.write(folder .. "/recipe.lua", recipe)
  end)
  teardown(function() command.remove(folder) end)

  -- Status, what was said, the lines of the metrics.
  local function train(before, set)
    runs = runs + 1
    local out = folder .. "/run" .. runs
    local status, text = command.run(folder, string.format("'%s/recipe.lua' --run '%s' %s", folder, out, set), nil, nil,
      before)
    return status, text, status == 0 and command.metrics(out) or nil
  end

  it("takes the kernels it names: bits as with LTRAIN_ISA, others than the best's", function()
    local status, text, named = train("", "--set device.isa=portable")
    assert.are.equal(0, status, text)
    local _, _, asked = train("LTRAIN_ISA=portable", "")
    assert.are.same(asked, named)
    if not run("auto"):match "kernels +portable" then
      local _, _, best = train("", "")
      assert.are_not.same(best, named)
      local _, _, over = train("LTRAIN_ISA=portable", "--set device.isa=avx2")
      assert.are_not.same(over, named)
    end
  end)
end)
