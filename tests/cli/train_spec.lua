-- train_spec.lua: ltrain-lua trains: the same bits twice, layouts that agree, folders, refusals, steps not applied.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
local width = lt.arg("width", 16, "of the stream")
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = width, layers = 1, heads = 2, dropout = 0.1, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-2, warmup = 4 } },
  train = { tokens = 192, steps = 12, eval_every = 4, eval_tokens = 300 },
  save = { every = 5, keep = 2 },
}
]]

describe("ltrain-lua recipe.lua", function()
  local folder, file
  local function run(arguments, ...) return command.run(folder, arguments, ...) end
  local function train(name, more) return command.train(folder, name, more) end

  setup(function()
    folder, file = command.prepare(recipe)
  end)
  teardown(function() command.remove(folder) end)

  it("writes every step once, and a run twice has the same bits", function()
    local a, records = train "a"
    local b = train "b"
    assert.same(a, b)
    assert.equal(13, #records)
    for i, r in ipairs(records) do
      assert.equal(i - 1, r.step)
      assert.equal(r.step > 0 and r.step % 4 == 0, r.eval_loss ~= nil)
      if r.step < 12 then
        assert.equal(192, r.tokens)
        assert.is_true(r.tokens_per_s > 0 and r.memory > 0 and r.grad_norm > 0 and r.lr > 0)
      end
    end
    assert.is_true(math.abs(records[1].loss - math.log(256)) < 0.2)
    assert.is_true(records[12].loss < records[1].loss - 0.3)
    assert.is_true(records[13].eval_loss < records[5].eval_loss)
    assert.is_true(records[1].lr < records[4].lr and records[12].lr < records[4].lr)
    assert.equal(300, records[5].eval_tokens)
  end)

  it("writes the numbers of every step as events, once, whatever was resumed", function()
    train("events", "--steps 7")
    local _, records = train("events", "--resume")
    local events = command.events(folder .. "/events")
    assert.equal(13, #events)
    for i, event in ipairs(events) do
      assert.equal(i - 1, event.step)
      for key, x in pairs(records[i]) do
        local y = event.values[key]
        assert.is_true(key == "step" or math.abs(x - y) <= 1e-7 * math.abs(x), key)
      end
    end
    assert.is_nil(events[1].values.step)
  end)

  it("ends when its text is gone, within a step and after a save, and names the file", function()
    local script = string.format("cd %s; cp -r text gone; '%s' recipe.lua --run lost --set data.train=gone/*.txt "
      .. "--set data.hold_out=0 --set train.steps=1000000 --set train.eval_every=0 > log 2>&1 & pid=$!; "
      .. "cd %s; while ! test -s lost/metrics.jsonl; do sleep 0.02; done; rm -r gone; wait $pid; echo $? > status",
      folder, command.path, folder)
    command.write(folder .. "/gone.sh", script)
    os.execute("timeout 60 sh " .. folder .. "/gone.sh")
    local said = command.read(folder .. "/log")
    assert.equal(4, tonumber(command.read(folder .. "/status")), said)
    assert.matches("gone/%d%d%.txt: cannot open: No such file", said)
    local _, records = command.metrics(folder .. "/lost")
    local state = folder .. "/lost/saves/step-" .. #records .. "/state.json"
    assert.equal(#records, lt.json.decode(command.read(state)).step)
  end)

  it("keeps what it ran, and the newest saves", function()
    train("kept", "width=20 --set train.steps=17")
    assert.equal(recipe, command.read(folder .. "/kept/recipe.lua"))
    local settings = command.read(folder .. "/kept/settings.txt")
    assert.matches("argument width=20", settings, 1, true)
    assert.matches("set train.steps=17", settings, 1, true)
    assert.matches("model.width = 20", settings, 1, true)
    local list = io.popen("ls " .. folder .. "/kept/saves")
    assert.equal("step-15\nstep-17\n", list:read "*a")
    list:close()
  end)

  it("agrees with itself on 2 and 3 ranks", function()
    local _, one = train("one", "--set dtype=f64")
    for ranks = 2, 3 do
      local _, more = train("ranks" .. ranks, "--set dtype=f64 --ranks " .. ranks)
      assert.is_true(more[1].memory < one[1].memory) -- the work was split
      for i = 1, #one do
        for _, key in ipairs { "loss", "grad_norm", "eval_loss" } do
          local x, y = one[i][key], more[i][key]
          assert.equal(x == nil, y == nil)
          assert.is_true(x == nil or math.abs(x - y) <= 1e-10 * math.abs(x),
            string.format("%d ranks, step %d, %s: %s, not %s", ranks, i - 1, key, tostring(y), tostring(x)))
        end
      end
    end
  end)

  it("goes on, on other ranks too, where --steps ended it", function()
    local whole = train "whole"
    train("parts", "--steps 3")
    train("parts", "--steps 8 --resume")
    assert.same(whole, (train("parts", "--resume")))
    assert.same(whole, (train("parts", "--resume"))) -- nothing is left to do
    local _, before = command.metrics(folder .. "/whole")
    train("moved", "--steps 6")
    local _, after = train("moved", "--resume --ranks 2")
    assert.equal(#before, #after)
    for i = 1, 12 do assert.is_true(math.abs(before[i].loss - after[i].loss) < 1e-4) end
  end)

  it("reads shuffled stretches of documents where the recipe asks for them", function()
    local whole, mixed = train("documents", "--steps 6"), train("mixed", "--steps 6 --set data.stretch=20")
    for i = 1, 6 do assert.not_equal(whole[i], mixed[i]) end
    train("again", "--steps 2 --set data.stretch=20")
    assert.same(mixed, (train("again", "--steps 6 --set data.stretch=20 --resume")))
    local status, said = run(file .. " --steps 7 --resume --run " .. folder .. "/again")
    assert.equal(0, status, said)
    assert.matches("the text is not that of the save", said)
  end)

  it("says that there is nothing to go on with, of a folder that was not there apart", function()
    local _, _, said = train("fresh", "--steps 0 --resume --set save.every=0")
    assert.matches("fresh was not there: there is nothing to go on with: starting at step 0", said, 1, true)
    os.execute("mkdir " .. folder .. "/empty")
    _, _, said = train("empty", "--steps 0 --resume")
    assert.matches("empty has no save yet: starting at step 0", said, 1, true)
  end)

  it("chooses a folder of its own", function()
    local script = "cd " .. folder .. " && '" .. command.path .. "' recipe.lua --steps 1 > log 2>&1"
    os.execute(script)
    os.execute(script)
    os.execute("cd " .. folder .. " && '" .. command.path .. "' recipe.lua --steps 2 --resume > log 2>&1")
    local _, first = command.metrics(folder .. "/runs/recipe-1")
    local _, second = command.metrics(folder .. "/runs/recipe-2")
    assert.equal(1, first[#first - 1].step + 1)
    assert.equal(2, second[#second - 1].step + 1) -- the newest was resumed
  end)

  it("does not apply a step whose gradient is not finite", function()
    -- 0 times the logarithm of nothing, in the steps that read the letter Z
    command.write(folder .. "/nan.lua", [[
local op = lt.op
local function factor(ctx)
  local byte = op.cast(ctx:feed "token", { dtype = "f32" })
  local other = op.scale(op.equal(byte, op.fill { value = 90 }), { alpha = -1, beta = 1 })
  return op.scale(op.sum(op.log(other)), { alpha = 0, beta = 1 })
end
return {
  data = { train = { "text/*.txt", "odd.txt" }, length = 32 },
  model = function(ctx)
    local table = ctx:param("embedding", { 256, 16 })
    local x = op.embedding(ctx:feed "token", table)
    return factor(ctx) * ctx:cross_entropy(x, ctx:param("head", { 256, 16 }))
  end,
  optim = lt.optim.adamw { lr = 1e-2 },
  train = { tokens = 64, steps = 60, micro_batch = 2 },
}
]])
    command.write(folder .. "/odd.txt", ("x = Z\n"):rep(4))
    local status, said = run(folder .. "/nan.lua --run " .. folder .. "/nan")
    assert.equal(0, status, said)
    local _, records = command.metrics(folder .. "/nan")
    local skipped, last = 0, 0
    for i = 1, 60 do
      local r = records[i]
      if r.applied == false then
        skipped, last = skipped + 1, i
        assert.equal("nan", r.grad_norm)
        assert.matches(string.format("warning: step %d is not applied: loss nan, " ..
          "[^\n]*first in log %%([^\n]*nan.lua:5%%): %%d+ of 64", i - 1), said)
      else
        assert.is_true(r.loss < 6 and r.grad_norm < 100)
      end
    end
    assert.is_true(skipped >= 1 and skipped <= 10 and last < 60)
    local state = lt.json.decode(command.read(folder .. "/nan/saves/step-60/state.json"))
    assert.equal(60, state.step)
    assert.equal(60 - skipped, state.updates)
  end)

  describe("refuses", function()
    local function refuse(status, pattern, arguments)
      local got, said = run(arguments)
      assert.equal(status, got, said)
      assert.matches(pattern, said)
      local _, errors = said:gsub(pattern, "")
      assert.equal(1, errors) -- once
      return said
    end

    it("a recipe that is not there", function() refuse(2, "nothing%.lua", folder .. "/nothing.lua") end)
    it("a recipe that is wrong, with its line", function()
      command.write(folder .. "/wrong.lua", (recipe:gsub("heads = 2", "heds = 2")))
      refuse(3, "wrong%.lua:5: model%.heds", folder .. "/wrong.lua")
    end)
    it("arguments nobody asked for", function() refuse(2, "widht", file .. " widht=3") end)
    it("options there are not", function() refuse(2, "no option %-%-step", file .. " --step 3") end)
    it("text that is not there", function()
      refuse(4, "data%.train%[1%]: no file matches",
        file .. " --set data.train=nowhere/*.txt --run " .. folder .. "/never")
      assert.is_nil(io.open(folder .. "/never")) -- no folder for a run that never began
    end)
    it("a layout that does not fit", function()
      refuse(3, "got dp = 3", file .. " --set layout.mesh.dp=3 --ranks 2")
    end)
    it("a folder it cannot write", function()
      refuse(4, "log/run", file .. " --run " .. folder .. "/log/run") -- below a file
    end)
    it("a folder with a run in it", function()
      train "taken"
      local before = command.read(folder .. "/taken/metrics.jsonl")
      local said = refuse(2, "holds a run already", file .. " --run " .. folder .. "/taken")
      assert.matches("%-%-resume", said)
      assert.not_matches("recipe  ", said, 1, true) -- before anything is planned
      assert.equal(before, command.read(folder .. "/taken/metrics.jsonl"))
    end)
    it("to resume another model", function()
      train("other", "--steps 2")
      refuse(4, "another model", file .. " width=24 --resume --run " .. folder .. "/other")
    end)
  end)

  it("needs no data to check a recipe", function()
    local status, said = run(file .. " --check --ranks 3 --set data.train=nowhere/*.txt")
    assert.equal(0, status, said)
    assert.matches("parameters  %d+", said)
    assert.matches("rank 2 ", said)
    status, said = run(file .. " --stage place --ranks 2")
    assert.equal(0, status, said)
    assert.matches("all_reduce", said)
  end)
  it("predicts for the machines a recipe names", function()
    local function check(machine)
      local status, said = run(file .. " --check --ranks 4 --set layout.mesh.dp=2 --set layout.mesh.tp=2 " .. machine)
      return status, said, tonumber(said:match "predicted%s+(%S+) s a step")
    end
    local _, near, together = check ""
    assert.matches("4 ranks: dp_o 2 %(stride 2%), tp 2 %(stride 1%)\n", near)
    local per_node = "--set layout.machine.per_node=2"
    local _, far, apart = check(per_node .. " --set 'layout.machine.links.between=1 MB'")
    assert.matches("4 ranks: dp_o 2 %(stride 2, between machines%), tp 2 %(stride 1%); 2 machines\n", far)
    assert.is_true(apart > 5 * together)
    local status, said = check(per_node .. " --set layout.machine.nodes=1")
    assert.equal(3, status)
    assert.matches("layout.machine: the machines do not hold all ranks", said, 1, true)
    assert.matches("expected nodes = 2, or per_node = 4", said, 1, true)
  end)
  it("lays a step out as the recipe says", function()
    local axes = file .. " --ranks 4 --set layout.mesh.tp=2 --set layout.mesh.dp=2"
    local _, plain = run(axes .. " --stage place")
    assert.matches('parameter "lm_head.weight" f32%[256, %d+%] tp:0', plain)
    assert.not_matches("flat", plain)
    local _, said = run(axes .. " --stage place --set optim.shard=2")
    assert.matches("flat_scatter", said)
    command.write(folder .. "/placed.lua", (recipe:gsub("%}%s*$",
      '  layout = { place = { ["lm_head.*"] = "replicated" } },\n}\n')))
    _, said = run((axes:gsub("recipe%.lua", "placed.lua")) .. " --stage place")
    assert.not_matches('parameter "lm_head.weight" f32%[256, %d+%] tp', said)
    assert.matches('parameter "lm_head.weight"', said)
  end)
end)

describe("recipes", function()
  local folder, root
  setup(function()
    folder = command.scratch()
    command.write_text(folder)
    root = os.getenv "LT_TEST_DATA" .. "/../recipes/"
  end)
  teardown(function() command.remove(folder) end)

  for _, name in ipairs { "small", "own_layer" } do
    it(name .. ".lua learns", function()
      local status, said = command.run(folder, string.format(
        "%s%s.lua --run %s/%s --set train.tokens=256 --set data.length=64 --set train.micro_batch=4 --steps 12",
        root, name, folder, name))
      assert.equal(0, status, said)
      local _, records = command.metrics(folder .. "/" .. name)
      assert.is_true(records[12].loss < records[1].loss - 0.2)
      assert.is_true(records[13].eval_loss < math.log(256))
    end)
  end

  -- A layer written in a recipe is what the built-in one is: parameters, values, gradients.
  it("may hold layers that equal the built-in ones", function()
    local text = [[
local op = lt.op
local function own(x, ctx)
  local gate, up = ctx:linear("gate_proj", x, 40), ctx:linear("up_proj", x, 40)
  return ctx:linear("down_proj", op.mul(op.silu(gate), up), x.width, { tp = "in", residual = true })
end
return {
  dtype = "f64",
  data = { train = "text/*.txt", length = 32 },
  model = lt.nn.decoder { width = 16, layers = 2, heads = 2,
    ffn = lt.arg("own", true) and own or lt.nn.swiglu { hidden = 40 } },
  optim = lt.optim.adamw { lr = 1e-2 },
  train = { tokens = 96, steps = 6 },
}
]]
    command.write(folder .. "/layer.lua", text)
    local loss = {}
    for i, arguments in ipairs { "own=false", "own=true", "own=true --ranks 3" } do
      local run = folder .. "/layer" .. i
      local status, said = command.run(folder, folder .. "/layer.lua " .. arguments .. " --run " .. run)
      assert.equal(0, status, said)
      local _, records = command.metrics(run)
      loss[i] = records
    end
    assert.is_true(loss[1][6].loss < loss[1][1].loss - 0.1)
    for i = 2, 3 do
      for k = 1, 6 do assert.is_true(math.abs(loss[i][k].loss - loss[1][k].loss) < 1e-11) end
    end
  end)
end)
