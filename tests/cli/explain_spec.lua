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
    for line in said:gmatch "\n  all_%a+ +over[^\n]+" do n = n + tonumber(line:match ", (%d+) times" or 1) end
    local placed, m = run("--stage place " .. layout), 0
    for _ in placed:gmatch "= all_%a+%(" do m = m + 1 end
    assert.equal(m, n) -- every one has its reason
    assert.is_true(n > 0)
    assert.matches("^no scope and no operation is like nosuch", run("--explain " .. layout .. " nosuch", 2))
    assert.matches("nothing is cut, nothing moves", run("--explain " .. file .. " head"), 1, true)
  end)

  it("--explain folds collectives that differ in their layer alone, and adds up what they send", function()
    local layout = "--explain --ranks 2 --set layout.mesh.tp=2 " .. file
    local gather = "\n  all_gather      over tp in layer %s/feed-forward: was S0, is needed R by matmul "
      .. "in layer %s/feed-forward, 6 times; sends 192 KiB\n"
    local said = run(layout)
    assert.matches(gather:format("*", "*"), said, 1, true)
    local scatter = "\n  reduce_scatter  over tp in layer */attention: was P(sum), is needed S0 by add "
      .. "in layer */attention, 3 times; sends 96 KiB\n"
    assert.matches(scatter, said, 1, true)
    assert.equal(1, select(2, said:gsub("is needed S0 by add in layer %*/attention", "")))
    assert.matches((gather:format("1", "1"):gsub("6 times; sends 192", "2 times; sends 64")),
      run(layout .. " 'layer 1/*'"), 1, true)
  end)

  it("explains the letters that occur, and no others", function()
    local tp = "--ranks 2 --set layout.mesh.tp=2 "
    local legend = "\nlegend\n"
      .. "  R            whole on every rank\n"
      .. "  S0           cut along dimension 0\n"
      .. "  S1           cut along dimension 1\n"
      .. "  P(sum)       every rank has a part: their sum is the value\n"
      .. "  P(lse)       every rank has a part of an attention or a loss: they are merged by their log-sum-exp\n"
      .. "  tp           along layout.mesh.tp\n"
      .. "  stride N     neighbours along the axis are N ranks apart\n"
    local states = "  tp:N         tp cuts the state along dimension N\n"
      .. "  [N:K]        N, cut into whole runs of K at most: heads\n"
    local function ends(text, said) assert.equal(text, said:sub(-#text)) end
    ends(legend, run("--explain " .. tp .. file))
    ends(legend .. states, run("--stage place " .. tp .. file))
    ends("\nlegend\n  R            whole on every rank\n" .. states, run("--stage place " .. file))
    assert.not_matches("legend", run("--explain " .. file))
    assert.not_matches("legend", run("--stage build " .. file))
    local sp = run("--stage place --ranks 4 --set layout.mesh.sp=4 --set layout.inner=2 --set optim.shard=1 " .. file)
    assert.matches("\n  flat         a range of its elements on each rank\n", sp, 1, true)
    assert.matches("\n  sp_o         along layout.mesh.sp, between groups of layout.inner ranks\n"
      .. "  sp_i         along layout.mesh.sp, within such a group\n", sp, 1, true)
  end)

  it("--stage NAME --json has what the text has", function()
    for _, name in ipairs { "build", "differentiate", "place", "exchange", "checkpoint" } do
      local text = run("--stage " .. name .. " --ranks 2 " .. file)
      local got = run("--stage " .. name .. " --json --ranks 2 " .. file)
      local stage = lt.json.decode(got)[1]
      local lines = 0
      for line in text:gsub("\nlegend\n.*", ""):gmatch "[^\n]+" do
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
