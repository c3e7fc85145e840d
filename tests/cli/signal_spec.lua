-- signal_spec.lua: a run that is asked to end a second time ends at once, wherever it is.
-- Here in the middle of what nobody reads, where it cannot listen.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  data = { train = "text/*.txt", length = 32 },
  model = lt.nn.decoder { width = 8, layers = 1, heads = 1 },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 64, steps = 40 },
  save = { every = 1, keep = 1 },
  on_step = function() print(("x"):rep(5000)) end,
}
]]

describe("a run", function()
  local folder, file
  setup(function() folder, file = command.prepare(recipe) end)
  teardown(function() command.remove(folder) end)

  it("asked again, two seconds later, ends at once", function()
    local path = folder .. "/again"
    command.write(folder .. "/again.sh", string.format(
      "mkfifo %s/pipe; sleep 60 < %s/pipe & reader=$!; '%s' %s --run %s > %s/pipe 2>&1 & pid=$!; "
      .. "while ! test -s %s/metrics.jsonl; do sleep 0.05; done; "
      .. "last=; while now=$(wc -c < %s/metrics.jsonl); test \"$now\" != \"$last\"; do last=$now; sleep 0.5; done; "
      .. "kill -TERM $pid; sleep 2.2; kill -0 $pid && echo waits; kill -TERM $pid; wait $pid; echo $?; kill $reader",
      folder, folder, command.path, file, path, folder, path, path))
    local p = io.popen("sh " .. folder .. "/again.sh 2> /dev/null")
    assert.equal("waits\n143\n", p:read "*a")
    p:close()
  end)
end)
