-- world_spec.lua: ltrain-lua under mpirun: layouts, resuming on others, ranks that differ, err, die, or fill the disk.
-- Every axis and pair of axes once, on 2 to 4 ranks; the other sizes are world_long_spec.lua's.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"
local world = require "world"
local mpirun = world.mpirun

describe("mpirun ltrain-lua recipe.lua", function()
  if not command.has_mpi() then
    pending "there is no MPI in this build"
    return
  end
  local w, folder, file = world.new(), nil, nil
  local shell, train, alone, agree, once = w.shell, w.train, w.alone, w.agree, w.once
  setup(function() folder, file = w.open() end)
  teardown(w.close)

  it("agrees on every axis with one rank, and has the bits of the ranks walked in one process", function()
    local _, one = alone "one"
    assert.equal(21, #one)
    assert.is_true(one[20].loss < one[1].loss - 0.5)
    local some = { { 2, "dp=2" }, { 3, "tp=3" }, { 4, "dp=2", "sp=2" }, { 4, "dp=2", "tp=2" }, { 4, "sp=2", "tp=2" } }
    for i, l in ipairs(some) do w.check_layout(i, l, one) end
  end)

  it("hands parameters and moments over where the length changes", function()
    local set = "grow=true steps=12 save=6 --set train.micro_batch=1 --set layout.mesh.tp=2 --set optim.shard=2"
    local walked = alone("grown", set .. " --ranks 4")
    local whole, records = train("grow", 4, set)
    assert.same(walked, whole)
    assert.not_equal(records[6].memory, records[7].memory)
    train("grow_half", 4, set .. " --steps 7")
    assert.same(whole, (train("grow_half", 4, set .. " --resume")))
    local _, one = alone("grow_one", "grow=true steps=12 save=6")
    agree(one, records, "grown")
  end)

  it("goes on from a save of any layout on any other", function()
    local whole, before = train("whole", 4, "--set layout.mesh.tp=2")
    train("half", 4, "--set layout.mesh.tp=2 --steps 10")
    for _, ranks in ipairs { 3, 4 } do w.check_resumed(ranks, whole, before) end
  end)

  describe("says once, and ends on all ranks,", function()
    local function refuse(status, pattern, line)
      local got, said, seconds = shell(line)
      assert.equal(status, got, said)
      once(said, pattern)
      assert.is_true(seconds < 20, said)
      return said
    end

    it("a mesh that does not fit, with those that would", function()
      local said = refuse(3, "the mesh does not hold all ranks",
        mpirun .. "-np 2 LTRAIN " .. file .. " --set layout.mesh.dp=3")
      assert.matches("expected dp = 2", said, 1, true)
    end)
    it("an option there is not", function()
      refuse(2, "no option %-%-stpes", mpirun .. "-np 2 LTRAIN --stpes 3 x")
    end)
    it("a number of ranks that is not the job's", function()
      refuse(2, "%-%-ranks 3 in a job of 2", mpirun .. "-np 2 LTRAIN --ranks 3 " .. file)
    end)
    it("what the machine has", function()
      refuse(0, "ok    memory", mpirun .. "-np 2 LTRAIN --doctor")
    end)
    it("a folder that holds a run", function()
      train("taken", 2, "--steps 1")
      refuse(2, "holds a run already", string.format("%s -np 2 LTRAIN %s --run %s/taken", mpirun, file, folder))
    end)

    -- What a recipe that asks for the rank or the time would do: another argument on one rank.
    local function odd(status, pattern, usual, other)
      local line = "%s -np 1 LTRAIN %s --run %s/odd : -np 1 LTRAIN %s --run %s/odd : -np 1 LTRAIN %s --run %s/odd"
      os.execute("rm -rf " .. folder .. "/odd")
      return refuse(status, pattern, line:format(mpirun, usual, folder, other, folder, usual, folder))
    end
    it("arguments that differ", function()
      odd(5, "rank 1 does not run what the others run: the arguments differ", file, file .. " width=32")
    end)
    it("a recipe whose text differs", function()
      command.write(folder .. "/other.lua", world.recipe .. "-- and so on\n")
      odd(5, "rank 1 does not run what the others run: the text of the recipe differs", file, folder .. "/other.lua")
    end)
    it("text that differs", function()
      local copy = "mkdir -p %s/b && cp -r %s/text %s %s/b && echo more >> %s/b/text/01.txt"
      os.execute(copy:format(folder, folder, file, folder, folder))
      odd(5, "rank 1 does not run what the others run: the text to learn from differs", file,
        folder .. "/b/recipe.lua")
    end)
    -- The same text everywhere, but on one rank the file beside it is another, as if it had asked for the time.
    local function beside(extra)
      local usual = 'return { layer = function(x) return x end, lr = function() return 1e-3 end }\n'
      os.execute((("mkdir -p F/c && cp -r F/text F/c"):gsub("F", folder)))
      for _, where in ipairs { "", "/c" } do
        command.write(folder .. where .. "/beside.lua", [[
local extra = require "extra"
return {
  data = { train = "text/*.txt", length = 32 },
  model = function(ctx)
    local x = lt.op.embedding(ctx:feed "token", ctx:param("embedding", { 256, 16 }))
    return ctx:cross_entropy(extra.layer(x), ctx:param("head", { 256, 16 }))
  end,
  optim = lt.optim.adamw { lr = function(step) return extra.lr(step) end },
  train = { tokens = 96, steps = 6 },
}
]])
        command.write(folder .. where .. "/extra.lua", where == "" and usual or extra)
      end
      return folder .. "/beside.lua", folder .. "/c/beside.lua"
    end
    it("graphs that differ", function()
      odd(5, "rank 1 does not run what the others run: the graph differs",
        beside "return { layer = function(x) return lt.op.tanh(x) end, lr = function() return 1e-3 end }")
    end)
    it("controls that differ, before the step", function()
      local said = odd(5, "rank 1 does not run what the others run: control 'lr' differs",
        beside "return { layer = function(x) return x end, lr = function(s) return s < 3 and 1e-3 or 2e-3 end }")
      assert.matches("step 3", said, 1, true)
    end)
    it("a policy that errs on one rank", function()
      odd(3, "rank 1: .*lost", beside
        "return { layer = function(x) return x end, lr = function(s) return s > 2 and error 'lost' or 1e-3 end }")
    end)
    it("a recipe with faults: all of them, once", function()
      local text = world.recipe:gsub("layers = 2", "layrs = 2"):gsub("keep = 2", "keep = 0")
      command.write(folder .. "/faulty.lua", text)
      local status, said = shell(string.format("%s -np 3 LTRAIN %s/faulty.lua", mpirun, folder))
      assert.equal(3, status, said)
      local path = folder .. "/faulty.lua"
      local words = path .. ":7: model.layrs: there is no such key\n  hint: did you mean layers?\n" ..
        path .. ":12: save.keep: is out of range\n  expected an integer at least 1, got 0\n"
      assert.equal(words, said:sub(1, #words))
      for _, key in ipairs { "layrs", "keep" } do assert.equal(1, select(2, said:gsub("%." .. key, ""))) end
    end)
    it("a recipe that errs on one rank", function()
      odd(3, "recipe.lua:2: rank 1: this recipe cannot be read here", file, file .. " fail=true")
      assert.is_nil(io.open(folder .. "/odd")) -- nothing was begun
    end)
  end)

  -- The process of a rank of this folder's run, by its environment.
  local find = [[
rank() { for p in /proc/[0-9]*; do
  if tr '\0' '\n' < $p/environ 2> /dev/null | grep -q "^OMPI_COMM_WORLD_RANK=$1\$" &&
     tr '\0' ' ' < $p/cmdline 2> /dev/null | grep -q "RUN " && ! grep -q timeout $p/cmdline
  then basename $p; return; fi
  done; }
]]
  local function interrupt(name, signal, whom)
    local run = folder .. "/" .. name
    local status, said = shell(find:gsub("RUN", run) .. string.format([[
%s -np 3 LTRAIN %s --run %s steps=100000 save=5 &
job=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  sleep 0.5
  if [ -d %s/saves/step-10 ] || [ -d %s/saves/step-15 ] || [ -d %s/saves/step-20 ]; then break; fi
done
sleep 0.5
date +%%s.%%N > %s/begun
kill -%s %s
wait $job
status=$?
date +%%s.%%N > %s/ended
exit=$status
(exit $exit)]], mpirun, file, run, run, run, run, folder, signal, whom, folder))
    return status, said, tonumber(command.read(folder .. "/ended")) - tonumber(command.read(folder .. "/begun"))
  end
  local function resumes(name)
    local _, after = train(name, 2, "--resume --steps 12")
    for i = 2, #after do assert.equal(after[i - 1].step + 1, after[i].step) end
  end

  it("ends within ten seconds when a rank is killed, and the last save is whole", function()
    local status, said, seconds = interrupt("killed", "KILL", "$(rank 1)")
    assert.not_equal(0, status)
    assert.is_true(seconds < 10, seconds)
    once(said, "rank 1 [^\n]*ended without a word")
    resumes "killed"
  end)
  it("ends within ten seconds when a rank stops answering", function()
    local status, said, seconds = interrupt("stopped", "STOP", "$(rank 1)")
    assert.equal(5, status)
    assert.is_true(seconds < 10, seconds)
    once(said, "rank 1 [^\n]*has shown no sign of life")
    resumes "stopped"
  end)
  it("saves and ends when the job is told to", function()
    local status, said = interrupt("told", "TERM", "$(rank 2)") -- one rank hears it, all end after the same step
    assert.equal(130, status, said)
    once(said, "interrupted: step %d+ is saved")
    resumes "told"
  end)
  it("ends when the disk is full, and the last save is whole", function()
    local run = folder .. "/small/run"
    local status, said = shell(string.format("mkdir -p %s/small; unshare -rm sh -c \"mount -t tmpfs -o size=1200k " ..
      "none %s/small || exit 99; %s -np 3 LTRAIN %s --run %s save=2 --set save.keep=50; status=\\$?; " ..
      "cp -r %s %s/full; exit \\$status\"", folder, folder, mpirun, file, run, run, folder))
    if status == 99 then return pending "no file system of our own can be mounted here" end
    assert.equal(4, status, said)
    once(said, "No space left")
    assert.matches("rank 0: ", said, 1, true)
    local _, after = train("full", 3, "--resume --steps 18")
    assert.is_true(#after >= 18)
  end)
end)
