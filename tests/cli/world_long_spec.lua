-- world_long_spec.lua: what world_spec.lua samples, whole: all layouts of up to four ranks, resuming on all numbers.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"
local world = require "world"

describe("mpirun ltrain-lua recipe.lua", function()
  if not command.has_mpi() then
    pending "there is no MPI in this build"
    return
  end
  local w = world.new()
  setup(w.open)
  teardown(w.close)

  it("agrees on every layout with one rank, and has the bits of the ranks walked in one process", function()
    local _, one = w.alone "one"
    local layouts = {
      { 2, "dp=2" }, { 2, "tp=2" }, { 2, "sp=2" },
      { 3, "dp=3" }, { 3, "tp=3" }, { 3, "sp=3" },
      { 4, "dp=4" }, { 4, "dp=2", "tp=2" }, { 4, "dp=2", "sp=2" }, { 4, "sp=2", "tp=2" }, { 4, "tp=4" }, { 4, "sp=4" },
    }
    for i, l in ipairs(layouts) do w.check_layout(i, l, one) end
  end)

  it("goes on from a save of any layout on any other", function()
    local whole, before = w.train("whole", 4, "--set layout.mesh.tp=2")
    w.train("half", 4, "--set layout.mesh.tp=2 --steps 10")
    for ranks = 1, 4 do w.check_resumed(ranks, whole, before) end
  end)
end)
