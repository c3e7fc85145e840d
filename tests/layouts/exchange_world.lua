-- exchange_world.lua: exchange_job.lua under mpirun, for exchange_world_spec.lua and its long one.
local world = {}

local folder = os.getenv "LT_TEST_DATA" .. "/layouts/"
local program = arg[-1]
local environment = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 " ..
  "OMPI_MCA_btl_base_warn_component_unused=0 OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 "

-- Is there a launcher, and the module of this build?
function world.is_there()
  local found = os.execute "command -v mpirun > /dev/null"
  local module = io.open((program:gsub("[^/]+$", "libltrain-mpi.so")))
  if module then module:close() end
  return (found == true or found == 0) and module ~= nil
end

-- → what a job of so many ranks says of so many cases, and what it says where all is well
function world.run(ranks, cases, seed, seconds)
  local line = ("timeout %d env %s mpirun -q --oversubscribe --bind-to none -np %d '%s' --script " ..
    "'%s/exchange_job.lua' %d %d 2>&1"):format(seconds, environment, ranks, program, folder, cases, seed)
  local f = assert(io.popen(line))
  local said = f:read "*a"
  f:close()
  return said, ("%d ranks: %d cases compared, %d to the bit\n"):format(ranks, cases, math.floor(cases / 4))
end

return world
