-- recall_long_spec.lua: recipes/recall.lua under mpirun: solved within ten minutes, on tables it was never shown; and
-- with the first half out of sight guessed, which no model can be better than, though what is near is recalled as well.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"
local root = os.getenv "LT_TEST_DATA" .. "/../recipes/"

local guess = 16 * math.log(36) / 1024 -- nats a byte of the second half, when its 16 characters are guessed

describe("recipes/recall.lua on two ranks", function()
  if not command.has_mpi() then
    pending "there is no MPI in this build"
    return
  end
  local folder
  setup(function()
    folder = command.scratch()
    local status, said = command.run(folder, string.format("--script '%srecall/make.lua' %s/text.jsonl", root, folder))
    assert.equal(0, status, said)
  end)
  teardown(function() command.remove(folder) end)

  -- The held-out loss at the end of a run: of bytes 128 to 255, and of the second half.
  local function losses(name, arguments)
    local words = string.format("'%srecall.lua' text=$PWD/%s/text.jsonl --run %s/%s %s", root, folder, folder, name,
      arguments)
    local status, said = command.job(folder, 2, words, 600)
    assert.equal(0, status, said)
    status, said = command.run(folder, "--eval --json " .. words)
    assert.equal(0, status, said)
    local loss = {}
    for _, part in ipairs(lt.json.decode(said:match "%b{}\n?$").positions) do loss[part.last] = part.loss end
    return loss[255], loss[2047]
  end

  it("is solved", function()
    local near, far = losses("whole", "")
    assert.is_true(far < guess / 4, far .. " where a guess costs " .. guess)
    assert.is_true(near < 1.5, near)
  end)

  it("is guessed with the first half out of sight", function()
    local near, far = losses("cut", "cut=true")
    assert.is_true(far > 0.95 * guess, far .. ": it was seen after all")
    assert.is_true(far < 1.4 * guess, far .. ": not even the rest was learnt")
    assert.is_true(near < 1.5, near .. ": recall itself was not learnt")
  end)
end)
