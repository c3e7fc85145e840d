-- again_spec.lua: what commands say of a run that was there before: its arguments, what has changed, its end.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
local width = lt.arg("width", 16)
lt.arg("note", "")
return {
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = width, layers = 1, heads = 2, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = 1e-2 },
  train = { tokens = 192, steps = 4, eval_tokens = 300 },
}
]]

describe("a run that was there before", function()
  local folder, file, name

  local function run(arguments, status)
    local got, said = command.run(folder, arguments)
    assert.equal(status or 0, got, said)
    return said
  end
  local function says(text, arguments, status) assert.matches(text, run(arguments, status), 1, true) end
  local function warnings(said) return select(2, said:gsub("warning: ", "")) end

  before_each(function()
    folder, file = command.prepare(recipe)
    name = folder .. "/a b"
    run(string.format("%s --run '%s' --steps 2 width=24 --set optim.clip=0.5", file, name))
  end)
  after_each(function() command.remove(folder) end)

  it("is told by the arguments it was started with, and the command that has them", function()
    local all = "width=24 --set optim.clip=0.5"
    local hint = "warning: the run was started with %s, which this command leaves out; with it:\n  %s%s '%s' %s\n"
    for _, words in ipairs { "--resume " .. file .. " --run", "--eval " .. file .. " --run",
      "--generate " .. file .. " --tokens 1 --run" } do
      local said = run(string.format("%s '%s'", words, name), 4)
      assert.matches(hint:format(all, command.path .. " ", words, name, all), said, 1, true)
      assert.matches("another model", said)
    end
    local words = "--eval " .. file .. " width=24 --run"
    says(hint:format("--set optim.clip=0.5", command.path .. " ", words, name, "--set optim.clip=0.5"),
      string.format("%s '%s'", words, name))
  end)

  it("is told so that a shell reads the same words", function()
    local words = "--set \"data.train=text/0*.txt\" --set 'optim.beta1=0.5'"
    run(string.format("%s --run %s/c --steps 1 %s", file, folder, words))
    says(" --set 'data.train=text/0*.txt' --set optim.beta1=0.5\n", string.format("--eval %s --run %s/c", file, folder))
  end)

  it("is told where they are, where they are too many for a line", function()
    run(string.format("%s --run %s/d --steps 1 note=%s", file, folder, ("x"):rep(500)))
    local said = run(string.format("--eval %s --run %s/d", file, folder))
    assert.matches("warning: the run was started with arguments that this command leaves out; "
      .. folder .. "/d/settings.txt has them\n", said, 1, true)
    assert.not_matches("xxx", said)
  end)

  it("is told by nothing where the command says all", function()
    local said = run(string.format("%s --resume --run '%s' --steps 3 width=24 --set optim.clip=0.5", file, name))
    assert.equal(0, warnings(said), said)
    said = run(string.format("--eval %s --run '%s' width=24 --set optim.clip=0.25", file, name))
    assert.equal(0, warnings(said), said)
  end)

  it("goes on with other settings, which are told one by one", function()
    local said = run(string.format("%s --resume --run '%s' --steps 3 width=24 --set optim.clip=0.25 "
      .. "--set train.tokens=256", file, name))
    assert.matches("warning: setting optim.clip was 0.5 in this run, is 0.25 now\n", said, 1, true)
    assert.matches("warning: setting train.tokens was 192 in this run, is 256 now\n", said, 1, true)
    assert.equal(2, warnings(said), said)
  end)

  it("tells what there was not, and what there is no more", function()
    command.write(file, (recipe:gsub("hidden = 24 }", "hidden = 24 }, dropout = 0.5, tied = true")
      :gsub("lr = 1e%-2", "lr = lt.lr.cosine { peak = 1e-2, warmup = 1 }")))
    local said = run(string.format("%s --resume --run '%s' width=24 --set optim.clip=0.5", file, name), 4)
    assert.matches("warning: setting optim.lr was 0.01 in this run, is lt.lr.cosine now\n", said, 1, true)
    assert.matches("warning: setting optim.lr.peak was unset in this run, is 0.01 now\n", said, 1, true)
  end)

  it("has nothing to do at its end", function()
    says("nothing to do: step 2 of 2 is done; a larger --steps goes on\n",
      string.format("%s --resume --run '%s' --steps 2 width=24 --set optim.clip=0.5", file, name))
    local said = run(string.format("%s --resume --run '%s' --steps 3 width=24 --set optim.clip=0.5", file, name))
    assert.not_matches("nothing to do", said)
  end)

  it("says where it is at its end, and what can be done with it where nobody named its folder", function()
    local words = "recipe.lua width=24 --set 'data.train=text/*.txt' --steps 1"
    command.write(folder .. "/my own.lua", recipe)
    local function ended(more)
      os.execute(string.format("cd %s && '%s' %s %s > said 2>&1", folder, command.path, words, more))
      return command.read(folder .. "/said"):match "\n(saved .*)$"
    end
    local same = "recipe.lua width=24 --set 'data.train=text/*.txt' --run runs/recipe-%d"
    local text = ("saved   runs/recipe-N/saves/step-1\neval    LT --eval SAME\ntext    LT --generate SAME\n"
      .. "go on   LT SAME --resume --steps N\nmore    LT --help\n"):gsub("LT", command.path)
    assert.equal((text:gsub("SAME", same:format(1)):gsub("recipe%-N", "recipe-1")), ended "")
    local said = ended "--set data.hold_out=0"
    assert.not_matches("eval ", said, 1, true)
    assert.matches("text    .- %-%-generate .- %-%-set data.hold_out=0 ", said)
    assert.equal("saved   named/saves/step-1\n", ended "--run named")
    for _, what in ipairs { "--eval", "--generate --tokens 3" } do
      assert.equal(0, os.execute(string.format("cd %s && '%s' %s %s > said 2>&1", folder, command.path, what,
        same:format(1))))
    end
    words = "'my own.lua' --steps 1"
    assert.matches("--eval 'my own.lua' --run 'runs/my own-1'\n", ended "", 1, true)
  end)

  it("is saved where timeout ends it, which sends its signal twice", function()
    local step, seconds = nil, 1
    while not step and seconds < 60 do -- it may not have begun to listen before
      os.execute(string.format("rm -rf %s/t; timeout -k 20 %d '%s' %s --steps 1000000 --run %s/t > %s/said 2>&1",
        folder, seconds, command.path, file, folder, folder))
      step, seconds = command.read(folder .. "/said"):match "interrupted: step (%d+) is saved\n", seconds * 3
    end
    assert.is_true(tonumber(step) > 0)
    says("going on from " .. folder .. "/t/saves/step-" .. step,
      string.format("%s --resume --run %s/t --steps %d", file, folder, step + 1))
  end)

  it("is looked for where the command says", function()
    for _, what in ipairs { "--eval", "--generate" } do
      says(name .. "x: cannot look into the folder of the run: No such file or directory\n",
        string.format("%s %s --run '%sx'", what, file, name), 4)
      says(folder .. "/text: the folder has no saves: its run has made none yet, or it is no run's\n  hint: --run DIR "
        .. "names the folder of one run, like runs/small-1\n", string.format("%s %s --run %s/text", what, file,
        folder), 4)
      local said = run(what .. " " .. file, 2)
      assert.equal("there is no run of this recipe: no folder runs/recipe-N\n"
        .. "  hint: --run DIR names the folder of a run\n", said)
    end
    assert.equal("there is no run of this recipe to resume: no folder runs/recipe-N\n"
      .. "  hint: --run DIR names the folder of a run\n", run("--resume " .. file, 2)) -- and no word before it
  end)
end)
