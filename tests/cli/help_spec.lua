-- help_spec.lua: every example the help prints is run as it stands, in a folder with a recipe of the name they use.
-- It is a small one with the same argument: examples are about what is said on the command line.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
local width = lt.arg("width", 128, "a sixteenth of it is the width")
return {
  seed = 1,
  data = { train = "../text/*.txt", hold_out = 0.3, length = 16 },
  model = lt.nn.decoder { width = width / 16, layers = 1, heads = 1, ffn = lt.nn.swiglu {} },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-3, warmup = 2 } },
  train = { tokens = 64, steps = 4, eval_tokens = 64 },
  save = { every = 100 },
}
]]

describe("the help of ltrain-lua", function()
  local folder

  setup(function()
    folder = command.scratch()
    command.write_text(folder)
    os.execute(string.format("mkdir %s/recipes %s/tests", folder, folder))
    command.write(folder .. "/recipes/small.lua", recipe)
    command.write(folder .. "/tests/one_spec.lua", "it('is there', function() assert.is_table(lt) end)\n")
  end)
  teardown(function() command.remove(folder) end)

  -- The examples of a page, in their order.
  local function examples(topic)
    local status, page = command.run(folder, "--help " .. topic)
    assert.equal(0, status, page)
    local list = {}
    for line in (page:match "\nexamples:\n(.-)\n\n" or ""):gmatch "[^\n]+" do
      list[#list + 1] = assert(line:match "^  (%S.*)$", line)
    end
    assert.is_true(#list > 0, "no examples on the page of " .. topic)
    return list
  end

  -- Training comes first: others look at its runs.
  local function topics()
    local list = { "", "train" }
    local _, all = command.run(folder, "--help")
    for name in all:match("commands:\n(.-)\n\n"):gmatch "\n?  (%-[%w%-]+)" do
      if name ~= "--help" and name ~= "--version" then list[#list + 1] = name end
    end
    return list
  end

  local function can_run(line)
    if line:find "^mpirun" then return command.has_mpi() end
    local script = line:match "%-%-script (%S+)"
    return not script or io.open(script)
  end

  -- In the folder, as a user would; a run of the name that an example begins is another example's.
  local function run(line)
    local reads = line:find "%-%-resume" or line:find "%-%-eval" or line:find "%-%-generate"
    local begins = not reads and line:match "%-%-run runs/(%w+)"
    local script = string.format("cd '%s' && exec > log 2>&1 < /dev/null\n%sPATH='%s':$PATH\n%s\necho $? > status\n",
      folder, begins and "rm -rf runs/" .. begins .. "\n" or "", command.path:match "^(.*)/", line)
    command.write(folder .. "/script.sh", script)
    os.execute("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 " ..
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none " ..
      "OMPI_MCA_btl_base_warn_component_unused=0 OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 timeout 60 sh " ..
      folder .. "/script.sh")
    return tonumber(command.read(folder .. "/status")), command.read(folder .. "/log")
  end

  it("has examples that work", function()
    local ran, n = {}, 0
    for _, topic in ipairs(topics()) do
      for _, line in ipairs(examples(topic)) do
        if not ran[line] and can_run(line) then
          ran[line], n = true, n + 1
          local status, said = run(line)
          local found_bad = topic == "--doctor" and status == 1 -- something of this machine
          assert.is_true(status == 0 or found_bad, line .. ": " .. tostring(status) .. "\n" .. said)
          assert.is_true(#said > 0 or line:find " %-i$" ~= nil, line .. " says nothing")
        end
      end
    end
    assert.is_true(n >= 20)
  end)
end)
