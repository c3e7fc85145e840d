-- cores_spec.lua: ranks that a launcher lets run on the same cores take their own of them: read back from running jobs.
-- What the launcher has bound, or the environment says of threads, stays as it was.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  data = { train = "text/*.txt", length = 32 },
  model = lt.nn.decoder { width = 16, layers = 1, heads = 2 },
  layout = { mesh = { dp = "auto" } },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 64, steps = 1000000, eval_every = 0 },
}
]]

-- Two ranks, looked at after their first step, then ended: where the threads of each may run, a line each.
local script = [==[
cd '%s' || exit 1
rm -rf run rank.0 rank.1
%s mpirun -q --oversubscribe %s -np 2 sh -c 'echo $$ > rank.$OMPI_COMM_WORLD_RANK; exec "$@"' x '%s' recipe.lua \
  --run run > log 2>&1 &
job=$!
while kill -0 $job 2> /dev/null && ! test -s run/metrics.jsonl; do sleep 0.05; done
for rank in 0 1; do
  sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$(cat rank.$rank)/task/*/status | sort -u | tr '\n' ' '
  echo
done
kill -TERM $(cat rank.0)
wait $job
]==]
local environment = "unset OMP_NUM_THREADS OMP_WAIT_POLICY GOMP_SPINCOUNT OMP_PROC_BIND OMP_PLACES; " ..
  "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " ..
  "OMPI_MCA_mpi_yield_when_idle=1 ASAN_OPTIONS=detect_leaks=0; "

local function read(line)
  local p = io.popen(line)
  local text = p:read "*a"
  p:close()
  return text
end

describe("the cores of ranks", function()
  local allowed = read "grep Cpus_allowed_list /proc/self/status":match "(%S+)%s*$"
  local cores = tonumber(read "env -u OMP_NUM_THREADS nproc")
  if not command.has_mpi() or cores < 2 then
    pending "there is no MPI in this build, or one core"
    return
  end
  local folder
  setup(function() folder = command.prepare(recipe) end)
  teardown(function() command.remove(folder) end)

  local function job(binding, before)
    command.write(folder .. "/job.sh", environment .. script:format(folder, before or "", binding, command.path))
    local said = read("timeout 60 sh '" .. folder .. "/job.sh' 2>&1")
    local first, second = said:match "^(%S+) \n(%S+) \n"
    return first, second, command.read(folder .. "/log"), said
  end

  it("are parted among those that share them, threads and all", function()
    local first, second, log, said = job "--bind-to none"
    assert.is_truthy(first and second, said .. log)
    assert.not_equal(first, second)
    assert.is_true(first ~= allowed and second ~= allowed, first)
    local each = math.floor(cores / 2)
    assert.matches(("ranks 2, threads %d\ncores   %d for each of 2 ranks, pinned apart\n"):format(each, each), log)
  end)
  it("stay as they are where the number of threads is said", function()
    local first, second, log, said = job("--bind-to none", "OMP_NUM_THREADS=1")
    assert.equal(allowed, first, said .. log)
    assert.equal(allowed, second)
    assert.matches("cores   2 ranks share " .. cores .. ": the environment says how\n", log)
  end)
  it("stay as the launcher bound them", function()
    local first, second, log, said = job "--bind-to core"
    assert.is_truthy(first and second and first ~= second, said .. log)
    assert.not_matches("\ncores ", log)
  end)
  it("are not parted where they are too few", function()
    local one = allowed:match "^%d+"
    local first, second, log, said = job("--bind-to none", "taskset -c " .. one)
    assert.equal(one, first, said .. log)
    assert.equal(one, second)
    assert.matches("cores   2 ranks share 1, which are too few to pin them\n", log)
  end)
end)

describe("threads that wait", function()
  local folder
  setup(function()
    folder = command.prepare [[
local get = os.getenv
io.write(tostring(get "OMP_WAIT_POLICY"), " ", tostring(get "GOMP_SPINCOUNT"))
]]
  end)
  teardown(function() command.remove(folder) end)

  local function settings(before)
    local line = "unset OMP_WAIT_POLICY GOMP_SPINCOUNT; %s '%s' --script '%s/recipe.lua'"
    return read(line:format(before, command.path, folder))
  end

  it("spin for a moment, then sleep", function() assert.equal("passive 1000", settings "") end)
  it("do what the environment says", function()
    assert.equal("active nil", settings "OMP_WAIT_POLICY=active")
    assert.equal("nil 0", settings "GOMP_SPINCOUNT=0")
  end)
end)
