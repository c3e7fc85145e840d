-- exchange_world_spec.lua: 20 cases of the matrix of exchanges under mpirun, on 2, 3 and 4 ranks: exchange_job.lua.
local world = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/exchange_world.lua")

describe("attention by every exchange, in a job", function()
  if not world.is_there() then
    pending "there is no MPI in this build"
    return
  end
  for ranks, cases in pairs { [2] = 7, [3] = 6, [4] = 7 } do
    it("agrees with one rank, and has the bits of ranks walked in one process: " .. ranks .. " ranks", function()
      local said, well = world.run(ranks, cases, 1, 60)
      assert.equal(well, said)
    end)
  end
end)
