-- sweep_spec.lua: ltrain-lua --sweep: a run a point, points that fail, a table and a file of results, resuming, Ctrl-C.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
local k = lt.arg("k", 1, "width in sixteens")
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = 16 * k, layers = 1, heads = 2, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = 1e-2 },
  train = { tokens = 192, steps = 4, eval_tokens = 300 },
  save = { every = 2 },
}
]]

describe("ltrain-lua --sweep", function()
  local folder, file, n = nil, nil, 0

  setup(function()
    folder, file = command.prepare(recipe)
  end)
  teardown(function() command.remove(folder) end)

  local function new()
    n = n + 1
    return folder .. "/s" .. n
  end
  local function sweep(run, more, status)
    local got, said = command.run(folder, string.format("--run %s %s %s", run, file, more))
    assert.equal(status or 0, got, said)
    return said
  end
  local function lines(run)
    local list, of = {}, {}
    for line in io.lines(run .. "/sweep.jsonl") do
      local record = lt.json.decode(line)
      list[#list + 1], of[record.point] = record, record
    end
    return list, of
  end
  local function count(s, what) return select(2, s:gsub(what, "")) end

  it("trains every point of an argument, and tells of all", function()
    local run = new()
    local said = sweep(run, "--sweep k=1,2")
    local list = lines(run)
    assert.equal(2, #list)
    for i, record in ipairs(list) do
      assert.equal("k=" .. i, record.point)
      assert.same({ k = i }, record.values)
      assert.equal(0, record.status)
      assert.equal(4, record.steps)
      local _, metrics = command.metrics(run .. "/" .. record.run)
      assert.equal(metrics[4].loss, record.loss)
      assert.equal(metrics[5].eval_loss, record.eval_loss)
      assert.equal(metrics[4].memory, record.memory)
      assert.is_true(record.tokens_per_s > 0)
      assert.matches("argument k=" .. i, command.read(run .. "/k=" .. i .. "/settings.txt"), 1, true)
      local row = said:match("\nk=" .. i .. " +([^\n]+)")
      assert.matches(string.format("^%.4f +%.4f +%%d+ ", record.loss, record.eval_loss), row)
    end
    assert.is_true(list[2].memory > list[1].memory)
    assert.are_not.equal(list[1].loss, list[2].loss)
  end)

  it("gives a point the bits of its run alone", function()
    local run, alone = new(), new()
    sweep(run, "--sweep k=2")
    sweep(alone, "k=2")
    assert.same((command.metrics(alone)), (command.metrics(run .. "/k=2")))
  end)

  it("makes every pair of arguments and settings, with or without a dot", function()
    local run = new()
    sweep(run, "--sweep k=1,2 --sweep train.tokens=128,192 --sweep seed=7 --steps 2")
    local list = lines(run)
    assert.equal(4, #list)
    assert.equal("k=1,train.tokens=128,seed=7", list[1].point)
    assert.equal("k=2,train.tokens=128,seed=7", list[3].point)
    assert.same({ k = 2, ["train.tokens"] = 192, seed = 7 }, list[4].values)
    local _, metrics = command.metrics(run .. "/" .. list[1].run)
    assert.equal(128, metrics[1].tokens)
    assert.matches("seed = 7", command.read(run .. "/" .. list[1].run .. "/settings.txt"), 1, true)
  end)

  it("says what fails and goes on; its status is that of the failed ones", function()
    local run = new()
    local said = sweep(run, "--sweep k=1,0,2", 3)
    local _, of = lines(run)
    assert.equal(0, of["k=1"].status)
    assert.equal(3, of["k=0"].status)
    assert.equal(0, of["k=2"].status)
    assert.matches("model.width", said, 1, true)
    assert.matches("\nk=0 +failed: [^\n]*recipe%.lua:5: model%.width: is out of range\n", said)
    assert.matches("1 of 3 points failed", said, 1, true)
    assert.is_nil(of["k=0"].loss)
    assert.is_not_nil(of["k=0"].error)
  end)

  it("goes on with what is not finished", function()
    local run = new()
    sweep(run, "--sweep k=1,2 --steps 2")
    local before = command.read(run .. "/k=1/metrics.jsonl")
    local said = sweep(run, "--sweep k=1,2,3 --steps 2 --resume")
    assert.not_matches("point   k=1", said, 1, true)
    assert.matches("point   k=3", said, 1, true)
    assert.equal(before, command.read(run .. "/k=1/metrics.jsonl"))
    assert.equal(3, #(lines(run)))
    assert.matches("\nk=1 +%d", said)
    sweep(run, "--sweep k=2 --resume") -- to the recipe's own end; the lines of other points stay
    local _, of = lines(run)
    assert.equal(4, of["k=2"].steps)
    assert.equal(2, of["k=1"].steps)
    local alone = new()
    sweep(alone, "k=2")
    local resumed = command.metrics(run .. "/k=2")
    assert.equal(command.metrics(alone)[4], resumed[4])
  end)

  it("ends after a save when interrupted, and resumes", function()
    local run = new()
    local words = string.format("--run %s %s --sweep k=1,2 --set train.steps=100000", run, file)
    local status, said = command.run(folder, words, 0.7, "INT")
    assert.equal(130, status, said)
    assert.matches("--run " .. run .. " --resume", said, 1, true)
    assert.matches("\nk=2 +not run", said)
    assert.equal(0, #(lines(run)))
    local done = #(command.metrics(run .. "/k=1"))
    assert.is_true(done > 0)
    said = sweep(run, string.format("--sweep k=1,2 --steps %d --resume", done + 1))
    assert.matches("\nk=2 +%d", said)
    assert.equal(2, #(lines(run)))
  end)

  it("refuses what is no sweep, and makes nothing for it", function()
    local run = new()
    local function refuse(more, status, what)
      assert.matches(what, sweep(run, more, status), 1, true)
      assert.is_nil(io.open(run))
    end
    refuse("--sweep k", 2, "--sweep takes name=value,value")
    refuse("--sweep k=1,,2", 2, "--sweep has an empty value")
    refuse("--sweep k=1,1", 2, "--sweep has the point k=1 twice")
    refuse("--sweep k=1 --sweep k=2", 2, "--sweep names k twice")
    refuse("--sweep kk=1,2", 3, "kk: there is no such key")
    refuse("--sweep train.stepss=1,2", 3, "did you mean steps?")
    sweep(run, "--sweep k=1 --steps 1")
    assert.matches("holds a sweep already", sweep(run, "--sweep k=1", 2), 1, true)
    assert.matches("holds a run, not a sweep", sweep(run .. "/k=1", "--sweep k=1", 2), 1, true)
  end)

  it("writes a value as a name of a file", function()
    local run = new()
    sweep(run, "--sweep data.train=text/*.txt --steps 1")
    assert.equal(1, #(command.metrics(run .. "/data.train=text%2F*.txt")) - 1)
    assert.equal(1, count(command.read(run .. "/sweep.jsonl"), "\n"))
  end)

  it("goes on with all ranks of a job", function()
    if not command.has_mpi() then return pending "there is no MPI in this build" end
    local run, one = new(), new()
    local words = string.format("%s --sweep k=0,1 --steps 1", file)
    local status, said = command.job(folder, 2, words .. " --run " .. run)
    assert.is_true(status ~= 0)
    assert.equal(1, count(said, "1 of 2 points failed"))
    sweep(one, "--sweep k=1 --steps 1 --ranks 2")
    local _, of = lines(run)
    local _, alone = lines(one)
    assert.is_true(math.abs(of["k=1"].loss - alone["k=1"].loss) < 1e-5)
    assert.equal(3, of["k=0"].status)
    status, said = command.job(folder, 2, string.format("%s --sweep k=1 --steps 1 --resume --run %s", file, run))
    assert.equal(0, status, said)
    assert.equal(0, count(said, "point   k=1"))
    assert.matches("\nk=1 +%d", said)
  end)
end)
