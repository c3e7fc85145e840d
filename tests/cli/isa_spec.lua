-- isa_spec.lua: LTRAIN_ISA chooses the kernels; a name that this machine has no kernels for ends the command.
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
