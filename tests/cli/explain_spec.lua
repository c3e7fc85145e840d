-- explain_spec.lua: --explain gives reasons that hold for the plan that is run; --stage --json gives the stage whole.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  data = { train = "nowhere", length = 32 },
  model = lt.nn.decoder { width = 32, layers = 3, heads = 2, ffn = lt.nn.gelu { hidden = 48 } },
  optim = lt.optim.adamw { lr = 1e-2 },
  checkpoint = { budget = lt.arg("budget", "1 GiB", "of a rank") },
  train = { tokens = 512 },
}
]]

describe("ltrain-lua", function()
  local folder, file
  setup(function()
    folder = command.scratch()
    file = folder .. "/recipe.lua"
    command.write(file, recipe)
  end)
  teardown(function() command.remove(folder) end)

  local function run(arguments, status)
    local got, said = command.run(folder, arguments)
    assert.equal(status or 0, got, said)
    return said
  end

  it("--explain tells of the plan that runs: memory that adds up, time, and what was tried", function()
    local said, check = run("--explain " .. file), run("--check " .. file)
    local peak = check:match "memory ([%d%.]+ %a+) %("
    assert.matches("memory of rank 0: " .. peak .. ",", said, 1, true)
    assert.matches("\n +1 +0 +" .. peak:gsub("%p", "%%%0") .. " +[%d%.]+ s  taken\n", said)
    assert.matches("taken\n", said, 1, true)
    assert.matches("recomputed: nothing;", said, 1, true)
    assert.matches("moments of the optimizer", said, 1, true)
    assert.matches("  matmul +[%d%.e%-]+ s +%d+%.%d %%", said)
  end)

  it("--explain shows candidates above the budget, and why layers are recomputed", function()
    local whole = run("--check " .. file):match "memory [%d%.]+ %a+ %((%d+) B%)"
    local said = run(string.format("--explain %s budget='%d B'", file, math.floor(whole * 0.7)))
    assert.matches("above the budget\n", said, 1, true)
    assert.matches("taken\n", said, 1, true)
    assert.matches("of those that fit, the least predicted time", said, 1, true)
  end)

  it("--explain SCOPE shows placements with their alternatives, and collectives with who asked", function()
    local layout = file .. " --ranks 4 --set layout.mesh.tp=2 --set layout.mesh.dp=2"
    local said = run("--explain " .. layout .. " 'layer 0/attention'")
    assert.equal(said, run("--explain='layer 0/attention' " .. layout))
    assert.matches("layer 0/attention matmul, forward (", said, 1, true)
    assert.matches("\n  along tp: .- moves .-\n    rather than R R %-> R, which makes a cut parameter whole\n", said)
    assert.not_matches("layer 1", said)
    said = run("--explain " .. layout)
    local n = 0
    for _ in said:gmatch "all_%a+ +over" do n = n + 1 end
    local placed, m = run("--stage place " .. layout), 0
    for _ in placed:gmatch "= all_%a+%(" do m = m + 1 end
    assert.equal(m, n) -- every one has its reason
    assert.is_true(n > 0)
    assert.matches("no scope and no operation is like nosuch", run("--explain " .. layout .. " nosuch", 2), 1, true)
    assert.matches("nothing is cut, nothing moves", run("--explain " .. file .. " head"), 1, true)
  end)

  it("--stage NAME --json has what the text has", function()
    for _, name in ipairs { "build", "differentiate", "place", "exchange", "checkpoint" } do
      local text = run("--stage " .. name .. " --ranks 2 " .. file)
      local got = run("--stage " .. name .. " --json --ranks 2 " .. file)
      local stage = lt.json.decode(got)[1]
      local lines = 0
      for line in text:gmatch "[^\n]+" do
        if line:find "^  .-%(.*%)" and not line:find '^  %%%d+ %a+ "' then lines = lines + 1 end
      end
      assert.equal(lines, #stage.nodes, name)
      assert.equal(name, stage.stage)
      assert.equal(2, stage.ranks)
      local placed = name == "place" or name == "exchange" or name == "checkpoint"
      assert.equal(placed, stage.nodes[1].outputs[1].placement ~= nil)
    end
    for _, name in ipairs { "lower", "order", "memory", "transfers", "verify" } do
      local stage = lt.json.decode(run("--stage " .. name .. " --json --ranks 2 --rank 1 " .. file))[1]
      assert.equal(1, stage.rank)
      assert.is_true(#stage.items > 50 and #stage.buffers > 50)
      local seconds = 0
      for _, item in ipairs(stage.items) do seconds = seconds + item.seconds end
      assert.is_true(seconds > 0)
      if name == "memory" then
        local most = 0
        for _, b in ipairs(stage.buffers) do most = math.max(most, b.offset + b.bytes) end
        assert.is_true(most <= stage.arena_bytes and most > 0.9 * stage.arena_bytes)
      end
    end
  end)
end)
