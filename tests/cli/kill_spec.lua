-- kill_spec.lua: a run that is killed at any moment, also within its saves, goes on as if nobody had touched it.
-- The save of every step keeps a run in its saves for much of its time; delays are drawn, so each is another moment.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = 24, layers = 2, heads = 2, dropout = 0.1 },
  optim = lt.optim.adamw { lr = function(step) return 1e-2 / (1 + step / 10) end },
  train = { tokens = 192, steps = 40, eval_every = 5, eval_tokens = 300 },
  save = { every = 1, keep = 2 },
}
]]

describe("a run", function()
  local folder, file, whole, seconds

  local function run(arguments, ...) return command.run(folder, file .. " " .. arguments, ...) end
  local function exists(path)
    local f = io.open(path)
    if f then f:close() end
    return f ~= nil
  end

  setup(function()
    folder, file = command.prepare(recipe)
    local ffi = require "ffi"
    ffi.cdef "typedef struct { long s, ns; } spec_time; int clock_gettime(int clock, spec_time *t);"
    local function now()
      local t = ffi.new "spec_time"
      ffi.C.clock_gettime(1, t)
      return tonumber(t.s) + 1e-9 * tonumber(t.ns)
    end
    local begun = now()
    local status, said = run("--run " .. folder .. "/whole")
    seconds = now() - begun
    assert.equal(0, status, said)
    whole = command.metrics(folder .. "/whole")
    assert.equal(41, #whole)
  end)
  teardown(function() command.remove(folder) end)

  it("killed at any moment repeats the losses of one that was not", function()
    local draw = lt.random(11, "kill")
    local kills, begun, runs, tries = 0, 0, 0, 0
    repeat -- run after run, each killed until it gets through, until there were enough kills
      runs = runs + 1
      local path = folder .. "/killed" .. runs
      repeat
        tries = tries + 1
        local patience = tries <= 30 and seconds * (0.2 + 0.6 * draw:uniform()) or nil
        local status, said = run(string.format("--run %s %s", path, exists(path) and "--resume" or ""), patience)
        assert.is_true(status == 0 or status == 137, said)
        assert.is_nil(said:find("refused", 1, true)) -- what has a save's name is whole
        if status == 137 then
          kills = kills + 1
          if exists(path .. "/metrics.jsonl") and #command.read(path .. "/metrics.jsonl") > 0 then begun = begun + 1 end
        end
      until status == 0
      assert.same(whole, (command.metrics(path)))
      local steps = {}
      for i, event in ipairs(command.events(path)) do steps[i] = event.step end
      assert.equal(41, #steps)
      for i = 1, 41 do assert.equal(i - 1, steps[i]) end
    until kills >= 8 or tries > 30
    assert.is_true(kills >= 4 and begun >= 3, kills .. " kills, " .. begun .. " of them in the steps")
  end)

  it("asked to end saves what it has, and goes on from there", function()
    for _, signal in ipairs { "TERM", "INT" } do
      local path = folder .. "/" .. signal
      local status, said
      local patience = seconds * 0.6
      for try = 1, 20 do -- until the signal comes between the first step and the last
        status, said = run("--run " .. path .. try, patience, signal)
        path = status == 130 and path .. try or path
        if status == 130 then break end
        patience = patience * (status == 0 and 0.7 or 1.2) -- the machine is not as busy as it was
      end
      assert.equal(130, status, said)
      assert.matches("interrupted: step %d+ is saved", said)
      local _, records = command.metrics(path)
      assert.is_true(exists(string.format("%s/saves/step-%d", path, records[#records].step + 1)))
      status, said = run("--resume --run " .. path)
      assert.equal(0, status, said)
      assert.same(whole, (command.metrics(path)))
    end
  end)

  it("leaves out a save that is damaged, says why, and repeats the losses from the one before", function()
    local path = folder .. "/damaged"
    local status, said = run("--steps 9 --run " .. path)
    assert.equal(0, status, said)
    local name = path .. "/saves/step-9/optimizer.safetensors"
    local bytes = command.read(name)
    command.write(name, bytes:sub(1, -9) .. "????" .. bytes:sub(-4)) -- as long as before
    status, said = run("--resume --run " .. path)
    assert.equal(0, status, said)
    assert.matches("refused: step 9: .*optimizer%.safetensors", said)
    assert.matches("going on from .*step%-8", said)
    assert.same(whole, (command.metrics(path)))
  end)

  it("is the only one in its folder", function()
    local path = folder .. "/shared"
    command.write(folder .. "/two.sh", string.format(
      "'%s' %s --run %s > /dev/null 2>&1 & pid=$!; "
      .. "while ! test -s %s/metrics.jsonl; do sleep 0.02; done; kill -STOP $pid; "
      .. "'%s' %s --resume --run %s > %s/two.log 2>&1; echo $? > %s/two.status; kill -CONT $pid; wait $pid",
      command.path, file, path, path, command.path, file, path, folder, folder))
    os.execute("sh " .. folder .. "/two.sh")
    assert.equal(4, tonumber(command.read(folder .. "/two.status")))
    assert.matches("another process trains in this folder", command.read(folder .. "/two.log"))
    assert.same(whole, (command.metrics(path)))
  end)
end)
