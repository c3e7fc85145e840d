-- exchange_world_long_spec.lua: 200 cases of the matrix of exchanges under mpirun: exchange_job.lua.
local world = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/exchange_world.lua")

describe("attention by every exchange, in a job", function()
  if not world.is_there() then
    pending "there is no MPI in this build"
    return
  end
  for ranks, cases in pairs { [2] = 66, [3] = 67, [4] = 67 } do
    it("agrees with one rank, and has the bits of ranks walked in one process: " .. ranks .. " ranks", function()
      local said, well = world.run(ranks, cases, 2, 300)
      assert.equal(well, said)
    end)
  end
end)
