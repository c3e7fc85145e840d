-- policy_page_spec.lua: the recipes of recipes/POLICY.md and recipes/policy.lua run, and steer.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"
local recipes = os.getenv "LT_TEST_DATA" .. "/../recipes/"

describe("recipes/POLICY.md", function()
  local folder
  setup(function()
    folder = command.scratch()
    command.write_text(folder)
  end)
  teardown(function() command.remove(folder) end)

  it("holds recipes that run, and pass --check", function()
    local n = 0
    for code in command.read(recipes .. "POLICY.md"):gmatch "\n```lua\n(.-)\n```" do
      n = n + 1
      local file = folder .. "/page" .. n .. ".lua"
      command.write(file, code)
      local status, said = command.run(folder, "--check " .. file)
      assert.equal(0, status, said)
      status, said = command.run(folder, file .. " --run " .. folder .. "/run" .. n)
      assert.equal(0, status, said)
    end
    assert.equal(2, n)
    local _, records = command.metrics(folder .. "/run2")
    assert.equal(0.06, records[8].controls.penalty)
    local state = lt.json.decode(command.read(folder .. "/run1/saves/step-8/state.json"))
    assert.is_true(state.policy.state.on_step > 0)
  end)

  it("points to a lesson that runs", function()
    local run, file = folder .. "/lesson", folder .. "/policy.lua"
    command.write(file, command.read(recipes .. "policy.lua"))
    local status, said = command.run(folder, file .. " --set data.train=text/*.txt --set data.hold_out=0.3 " ..
      "--set train.eval_every=2 --set train.tokens=256 --steps 8 --run " .. run)
    assert.equal(0, status, said)
    local _, records = command.metrics(run)
    assert.is_true(records[2].controls.noise > 0)
    local state = lt.json.decode(command.read(run .. "/saves/step-8/state.json"))
    assert.is_true(state.policy.state["on_step[1]"].best < 6)
  end)
end)
