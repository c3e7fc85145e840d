-- plan_spec.lua: plan.json: what the plan loop chose is on the disk before the first step; a run that goes on uses it.
-- A record changed by hand stands for one of another version or machine: what would be chosen now is something else.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = { { 0, 16 }, { 6, 32 } } },
  model = lt.nn.decoder { width = 16, layers = 2, heads = 2, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = 1e-2 },
  train = { tokens = 128, steps = 10, eval_tokens = 128 },
  save = { every = 4, keep = 9 },
}
]]

describe("The plan of a run", function()
  local folder, file
  setup(function()
    folder, file = command.prepare(recipe)
  end)
  teardown(function() command.remove(folder) end)

  local function run(name, arguments)
    local to = folder .. "/" .. name
    local status, said = command.run(folder, file .. " --run " .. to .. " " .. (arguments or ""))
    assert.equal(0, status, said)
    return to, said
  end
  local function plan(to) return lt.json.decode(command.read(to .. "/plan.json")) end
  local function change(to, pattern, by)
    local text, n = command.read(to .. "/plan.json"):gsub(pattern, by)
    assert.is_true(n > 0)
    command.write(to .. "/plan.json", text)
  end

  it("is written before the first step", function()
    local to = run("begun", "--steps 0")
    local p = plan(to)
    for _, name in ipairs { "train 16", "train 32", "evaluate 32" } do
      assert.equal(1, p[name].units)
      assert.equal(16, #p[name].asked)
      assert.is_true(p[name].block > 0 and p[name].machine.flops > 0)
    end
    assert.equal("00", p["train 16"].keeps)
    local by_layer = run("kept", "--steps 0 --set checkpoint.layers=1 --set checkpoint.mode=layers")
    assert.equal("30", plan(by_layer)["train 32"].keeps)
    local inner = run("inner", "--steps 0 --set layout.inner=1")
    assert.not_equal(p["train 32"].asked, plan(inner)["train 32"].asked) -- a part of the mesh is a part of the question
  end)

  it("is that of the run again when it goes on, after a kill too", function()
    local to = folder .. "/killed"
    command.write(folder .. "/kill.sh", string.format(
      "'%s' %s --run %s --set train.steps=1000000 --set save.keep=1000000 > %s/log 2>&1 & pid=$!; i=0; " ..
      "while [ $i -lt 400 ] && ! test -d %s/saves/step-4; do sleep 0.02; i=$((i + 1)); done; kill -9 $pid",
      command.path, file, to, folder, to))
    os.execute("timeout 60 sh " .. folder .. "/kill.sh")
    os.execute(string.format("cd %s && mkdir kept && mv saves/step-4 kept && rm -rf saves && mv kept saves", to))
    change(to, '"units": ?1', '"units":4')
    change(to, '"keeps": ?"00"', '"keeps":"13"')
    local _, said = run("killed", "--resume")
    assert.matches("16 tokens, 8 sequences, 4 micro-batches", said, 1, true)
    assert.matches("32 tokens, 4 sequences, 4 micro-batches", said, 1, true)
    assert.equal(4, plan(to)["train 16"].units)
    assert.equal("13", plan(to)["train 32"].keeps)
    -- The numbers are those of a run that was planned so from its beginning, where they are bits of the same units.
    local whole = run("whole", "--steps 4")
    change(whole, '"units": ?1', '"units":4')
    run("whole", "--resume")
    local a, b = command.metrics(whole), command.metrics(to)
    local function without(line) return (line:gsub(',"memory":%d+', "")) end
    for i = 5, 10 do assert.equal(without(a[i]), without(b[i])) end
    assert.is_true(tonumber(b[5]:match '"memory":(%d+)') < tonumber(a[5]:match '"memory":(%d+)')) -- less was kept
    assert.not_same((command.metrics(run "plain")), a)
  end)

  it("is another where another is asked for, or none can be read", function()
    local to = run("asked", "--steps 4")
    local before = plan(to)["train 16"].asked
    change(to, '"units": ?1', '"units":2')
    local _, said = run("asked", "--resume --steps 5 --set train.eval_every=1")
    assert.matches("16 tokens, 8 sequences, 2 micro-batches", said, 1, true)
    assert.equal(before, plan(to)["train 16"].asked)
    _, said = run("asked", "--resume --steps 6 --set train.micro_batch=2")
    assert.matches("16 tokens, 8 sequences, 4 micro-batches", said, 1, true)
    assert.not_equal(before, plan(to)["train 16"].asked)
    for _, other in ipairs { "dtype=bf16", "model.ffn.hidden=32", 'layout.exchange=ring' } do
      local p = plan(run("other" .. other:match "%w+", "--steps 0 --set " .. other))
      assert.not_equal(before, p["train 16"].asked, other)
    end
    for i, text in ipairs { "{", '{"train 16": 7, "train 32": {"units": -1}}' } do
      command.write(to .. "/plan.json", text)
      _, said = run("asked", "--resume --steps " .. 6 + i)
      assert.matches("16 tokens, 8 sequences, 1 micro-batch, ", said, 1, true)
      assert.equal(i == 1, said:find("plan.json: [^\n]*: the run is planned anew") ~= nil, said)
    end
    change(to, '"keeps": ?"00"', '"keeps":"0000"') -- of a model that had more layers
    _, said = run("asked", "--resume")
    assert.matches("16 tokens, 8 sequences, 1 micro-batch, ", said, 1, true)
  end)

  it("is what rank 0 has read, on all ranks", function()
    if not command.has_mpi() then return pending "there is no MPI in this build" end
    local to = folder .. "/job"
    local status, said = command.job(folder, 2, file .. " --steps 4 --run " .. to)
    assert.equal(0, status, said)
    change(to, '"units": ?1', '"units":2')
    status, said = command.job(folder, 2, file .. " --resume --run " .. to)
    assert.equal(0, status, said)
    assert.matches("16 tokens, 8 sequences, 2 micro-batches", said, 1, true)
  end)
end)
