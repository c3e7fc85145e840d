-- bf16_long_spec.lua: recipes/small.lua in bf16 and in float32, 200 steps each: the same held-out loss, nearly.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

describe("recipes/small.lua in bf16", function()
  it("reaches the held-out loss of float32", function()
    local folder, loss = command.scratch(), {}
    local recipe = os.getenv "LT_TEST_DATA" .. "/../recipes/small.lua"
    for _, dtype in ipairs { "f32", "bf16" } do
      local run = folder .. "/" .. dtype
      local arguments = string.format("%s --run %s --steps 200 --set dtype=%s", recipe, run, dtype)
      local status, said = command.run(folder, arguments)
      assert.equal(0, status, said)
      local _, records = command.metrics(run)
      loss[dtype] = records[#records].eval_loss or records[#records - 1].eval_loss
    end
    command.remove(folder)
    assert.is_true(loss.f32 < 3, "nothing was learnt")
    assert.is_true(math.abs(loss.bf16 - loss.f32) < 0.02, string.format("%g, float32 %g", loss.bf16, loss.f32))
  end)
end)
