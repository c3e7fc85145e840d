-- deal_spec.lua: a partition of the recipe's own in whole runs: asked early, ended when slow, compared between ranks.
-- What is wrong with it is found before anything of its step has run: the steps before it are saved.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

-- %s: statements before the recipe's table
local frame = [[
%s
return {
  seed = 5,
  data = { train = "text/*.txt", length = 32, stretch = 16, look_ahead = lt.arg("ahead", 2, "steps") },
  model = lt.nn.decoder { width = 16, layers = 1, heads = 2, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 128, steps = 10 },
  save = { every = 4, keep = 9 },
  layout = { mesh = { sp = 2 }, block = 3, max_share = 2, partition = partition },
}
]]

describe("A partition of one's own", function()
  local folder
  setup(function()
    folder = command.scratch()
    command.write_text(folder)
  end)
  teardown(function() command.remove(folder) end)

  local number = 0
  local function write(before)
    number = number + 1
    local file = string.format("%s/r%d.lua", folder, number)
    command.write(file, frame:format(before))
    return file, string.format("%s/run%d", folder, number)
  end
  local function newest(to)
    local list, last = io.popen("ls '" .. to .. "/saves'"), 0
    for name in list:lines() do last = math.max(last, tonumber(name:match "^step%-(%d+)$") or 0) end
    list:close()
    return last
  end
  local function partition(more)
    return "local function partition(s)\n  " .. more .. "\n  local owner = {}\n" ..
      "  for b = 1, s.blocks do owner[b] = (b + s.step + #s.documents) % s.ranks end\n  return owner\nend"
  end

  it("is asked early, and the numbers do not know", function()
    local seen
    for ahead = 0, 3 do
      local file, to = write(partition "")
      local status, said = command.run(folder, file .. " --ranks 2 --run " .. to .. " ahead=" .. ahead)
      assert.equal(0, status, said)
      local lines = command.metrics(to)
      seen = seen or lines
      assert.same(seen, lines)
    end
  end)

  it("that is slow only at some step is ended, named, and the steps before are saved", function()
    local file, to = write(partition "while s.step == 6 do end")
    local status, said = command.run(folder, file .. " --ranks 2 --run " .. to)
    assert.equal(3, status, said)
    assert.matches(file .. ":2: layout.partition: the partition of step 6 took more than 1 s", said, 1, true)
    assert.equal(6, newest(to))
    assert.equal(6, #(command.metrics(to)))
    command.write(file, frame:format(partition "")) -- mended, it goes on as if nothing had been
    status, said = command.run(folder, file .. " --ranks 2 --resume --run " .. to)
    assert.equal(0, status, said)
    local whole
    file, whole = write(partition "")
    assert.equal(0, (command.run(folder, file .. " --ranks 2 --run " .. whole)))
    assert.same((command.metrics(whole)), (command.metrics(to)))
  end)

  it("that gives a rank too much is named with its line, by --check too", function()
    local file, to = write("local function partition(s)\n  local owner = {}\n" ..
      "  for b = 1, s.blocks do owner[b] = s.step < 3 and b % 2 or 0 end\n  return owner\nend")
    command.write(file, (command.read(file):gsub("max_share = 2", "max_share = 1")))
    local fault = file .. ":13: layout.partition: the partition gives rank 0 more than layout.max_share allows\n"
    local status, said = command.run(folder, file .. " --ranks 2 --run " .. to)
    assert.equal(3, status, said)
    assert.matches(fault .. "  expected at most 6 of 11 blocks, got 11\n  hint: in step 3, sequence 0\n", said, 1, true)
    assert.equal(3, newest(to))
    status, said = command.run(folder, "--check --ranks 2 " .. file)
    assert.equal(3, status, said)
    assert.matches(fault, said, 1, true)
  end)

  it("is the same on all ranks, or the job ends", function()
    if not command.has_mpi() then return pending "there is no MPI in this build" end
    local text = frame:format("local knob = require 'knob'\n" .. partition "s = knob(s)")
    for i, knob in ipairs { "", "if s.step == 5 then s.step = 6 end" } do
      local at = folder .. "/rank" .. i
      os.execute("mkdir -p " .. at .. " && cp -r " .. folder .. "/text " .. at)
      command.write(at .. "/r.lua", text)
      command.write(at .. "/knob.lua", "return function(s) " .. knob .. " return s end")
    end
    local program = "'" .. command.path .. "' r.lua --run ../differs"
    local status, said = command.job_of(folder, "-np 1 -wdir " .. folder .. "/rank1 " .. program .. " : -np 1 -wdir " ..
      folder .. "/rank2 " .. program)
    assert.equal(3, status, said)
    assert.matches("r.lua:15: layout.partition: rank 1 does not run what the others run: " ..
      "the answer of policy 'layout.partition' differs", said, 1, true)
    assert.is_nil(said:find("\27", 1, true)) -- mpirun shows its ranks a terminal, and writes into a file itself
    assert.equal(5, newest(folder .. "/differs"))
  end)
end)
