-- trace_spec.lua: train.trace: the items of one step, of every rank, in a file that trace viewers read.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 3,
  data = { train = "text/*.txt", length = 32 },
  model = lt.nn.decoder { width = 16, layers = 2, heads = 2 },
  optim = lt.optim.adamw { lr = lt.lr.constant { peak = 1e-3 } },
  train = { tokens = 128, steps = 3 },
}
]]

describe("train.trace", function()
  local folder, file
  setup(function() folder, file = command.prepare(recipe) end)
  teardown(function() command.remove(folder) end)

  -- The items by rank; that lanes and ranks are named, and no item ends before it begins.
  local function items(name)
    local of, names = {}, {}
    for _, event in ipairs(lt.json.decode(command.read(folder .. "/" .. name .. "/trace.json")).traceEvents) do
      local rank = event.pid
      if event.ph == "M" then
        names[event.args.name] = true
      else
        assert.equal("X", event.ph)
        assert.is_true(event.ts >= 0 and event.dur >= 0 and event.args.predicted_us >= 0)
        of[rank] = of[rank] or {}
        table.insert(of[rank], event)
      end
    end
    assert.is_true(names["rank 0"] and names.compute)
    return of
  end

  local function has(list, word)
    for _, event in ipairs(list) do
      if event.name:find(word, 1, true) then return true end
    end
    return false
  end

  it("writes what a step did, of one rank and of two", function()
    local _, _, said = command.train(folder, "one", "--set train.trace=1")
    assert.matches("\nstep 1 is written to " .. folder .. "/one/trace.json: https://ui.perfetto.dev opens it\n", said,
      1, true)
    local one = items "one"
    assert.is_true(#one[0] > 20 and not one[1])
    assert.is_true(has(one[0], "layer 1/attention") and has(one[0], "adamw"))
    command.train(folder, "two", "--set train.trace=2 --ranks 2")
    local two = items "two"
    assert.is_true(#two[0] > 20 and #two[1] == #two[0] and has(two[1], "reduce"))
  end)

  it("is of all processes", function()
    if not command.has_mpi() then
      pending "there is no MPI in this build"
      return
    end
    local status, said = command.job(folder, 2, file .. " --set train.trace=2 --run " .. folder .. "/job")
    assert.equal(0, status, said)
    assert.equal(1, select(2, said:gsub("step 2 is written to ", "")))
    local job = items "job"
    assert.is_true(#job[0] > 20 and #job[1] == #job[0] and has(job[1], "reduce"))
  end)

  it("says that a step is none of the run's", function()
    for _, words in ipairs { "--steps 2 --set train.trace=2", "--resume --set train.trace=1" } do
      local _, _, said = command.train(folder, "past", words)
      assert.is_truthy(said:find("of train.trace, is none of this run's", 1, true), said)
    end
    assert.is_nil(io.open(folder .. "/past/trace.json"))
  end)

  it("is not written unasked, nor ends a run that cannot write it", function()
    command.train(folder, "none")
    assert.is_nil(io.open(folder .. "/none/trace.json"))
    os.execute("mkdir -p " .. folder .. "/full/trace.json/full") -- nothing can take its name
    local _, records, said = command.train(folder, "full", "--set train.trace=1")
    assert.equal(3, records[3] and #records)
    assert.is_truthy(said:find("trace.json", 1, true), said)
    assert.is_truthy(said:find("cannot rename", 1, true), said)
  end)
end)
