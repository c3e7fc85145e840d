-- diff_spec.lua: ltrain-lua --diff: what differs in two recipes and in two runs, and its exit status.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
local k = lt.arg("k", 1, "width in sixteens")
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = 16 * k, layers = 1, heads = 2, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-2, warmup = 2 } },
  train = { tokens = 192, steps = 6, eval_every = 3, eval_tokens = 300 },
}
]]

describe("ltrain-lua --diff", function()
  local folder, file

  setup(function()
    folder, file = command.prepare(recipe)
  end)
  teardown(function() command.remove(folder) end)

  local function run(arguments, status)
    local got, said = command.run(folder, arguments)
    assert.equal(status or 0, got, said)
    return said
  end
  local function has(said, ...)
    for _, what in ipairs { ... } do assert.matches(what, said, 1, true) end
  end

  describe("of recipes", function()
    local same = "settings: the same\ngraph: the same\nplan: the same\n"

    it("is quiet where nothing differs", function()
      assert.equal(same, run(string.format("--diff %s %s", file, file)))
      assert.equal(same, run(string.format("--diff %s k=2 %s k=2 --set train.steps=9", file, file)))
    end)

    it("tells settings with their origins, parameters and memory", function()
      local said = run(string.format("--diff %s %s k=2", file, file), 1)
      local from = " %([^)]*recipe%.lua:5, argument k%)"
      assert.matches("\n  model%.width +16" .. from .. "  |  32" .. from .. "\n", said)
      assert.not_matches("train.steps", said, 1, true)
      local a, b = said:match "\n  parameters +(%d+)  |  (%d+)\n"
      assert.is_true(tonumber(b) > tonumber(a))
      local x, y = said:match "\n  memory +[^\n]-%((%d+) B%)  |  [^\n]-%((%d+) B%)\n"
      assert.is_true(tonumber(y) > tonumber(x))
      assert.matches("\n  [%w%./_ ]+ +f32 %[256, 16%]  |  f32 %[256, 32%]\n", said)
    end)

    it("tells operations by scope, and what one alone has", function()
      local other = folder .. "/other.lua"
      command.write(other, (recipe:gsub("layers = 1", "layers = 2"):gsub("lt.nn.gelu", "lt.nn.swiglu")))
      local said = run(string.format("--diff %s %s", file, other), 1)
      has(said, "lt.nn.gelu", "lt.nn.swiglu")
      assert.matches("\n  layer 1/attention: [%w_]+ +%-  |  %d+\n", said)
      assert.matches("\n  layer 0/feed%-forward: gelu +1  |  %-\n", said)
    end)

    it("tells of plans on ranks", function()
      local two = run(string.format("--diff %s %s --ranks 2 --set layout.mesh.tp=2", file, file))
      assert.equal(same, two)
      local units = run(string.format("--diff %s %s --set train.micro_batch=3", file, file))
      assert.equal(same, units)
      local other = folder .. "/micro.lua"
      command.write(other, (recipe:gsub("tokens = 192", "tokens = 192, micro_batch = 3")))
      assert.matches("\n  micro%-batches +1  |  2\n", (run(string.format("--diff %s %s", file, other), 1)))
    end)
  end)

  describe("of runs", function()
    local function train(name, more) run(string.format("%s --run %s/%s %s", file, folder, name, more or "")) end
    local function diff(a, b, status) return run(string.format("--diff %s/%s %s/%s", folder, a, folder, b), status) end

    it("finds a run and its like the same, speed aside", function()
      train "a"
      train "k=1" -- a name that looks like an argument
      local said = diff("a", "k=1")
      has(said, "settings: the same\n", "losses: the same at all 6 steps", "held-out losses: the same at all 2 steps",
        "memory: the same\n")
      assert.matches("speed: %d+  |  %d+ tokens/s", said)
    end)

    it("names the step where losses part, and what is set otherwise", function()
      train("b", "--set optim.lr.warmup=3")
      local _, a = command.metrics(folder .. "/a")
      local _, b = command.metrics(folder .. "/b")
      local said = diff("a", "b", 1)
      assert.matches("\n  optim%.lr%.warmup +2  |  3\n", said)
      assert.equal(a[1].loss, b[1].loss)
      assert.are_not.equal(a[2].loss, b[2].loss)
      has(said, "\nlosses: the first difference is at step 1\n")
      has(said, "\nheld-out losses: the first difference is at step 3\n")
      assert.matches(string.format("\n +5 +%.6f +%.6f ", a[6].loss, b[6].loss), said)
    end)

    it("tells of a run that is shorter", function()
      train("c", "--steps 3")
      local said = diff("a", "c", 1)
      has(said, "losses: the same at all 3 steps", "the first run has 6, the second 3")
      train("d", "--steps 1")
      has(diff("a", "d", 1), "losses: the same at the one step that both have", "the first run has 6, the second 1")
    end)
  end)

  it("refuses what cannot be compared", function()
    has(run("--diff " .. file, 2), "--diff takes two recipes, or two runs")
    has(run(string.format("--diff %s %s", file, folder), 2), "compares two recipes, or the folders of two runs")
    has(run(string.format("--diff %s %s/none", folder, folder), 2), "there is no run " .. folder .. "/none\n")
    has(run(string.format("--diff %s/none %s", folder, folder), 2), "there is no run " .. folder .. "/none\n")
    has(run(string.format("--diff %s %s --ranks 2", folder, folder), 2), "mean nothing with two runs")
    has(run(string.format("--diff %s %s", folder, folder), 4), "settings.txt")
    has(run(string.format("--diff %s %s/none.lua", file, folder), 2), "no recipe of this name")
    has(run(string.format("--diff %s x=1 %s", file, file), 2), "no such argument")
  end)
end)
