-- memory_spec.lua: what a run really holds, by the kernel's book, is what its plan says: states and activations, on one
-- rank and on two, across a change of length; and many steps hold what few hold.
-- Pss: pages that ranks share count once, in parts. Allowed: 5 % and 100 MB, for program, libraries, stacks and text.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

-- Writes "steps done, Pss in kB" of the command it runs, again and again, to a file of its own.
local watch = [[
"$@" & pid=$!
while kill -0 $pid 2> /dev/null; do
  pss= n=0
  { while read -r key kb unit; do [ "$key" = Pss: ] && pss=$kb; done < /proc/$pid/smaps_rollup; } 2> /dev/null
  [ -f "$RUN/metrics.jsonl" ] && n=$(wc -l < "$RUN/metrics.jsonl")
  [ -n "$pss" ] && echo "$n $pss" >> "$RUN.held.$pid"
  sleep 0.02
done
wait $pid
]]

-- Large by its states: parameters, moments and gradients of two tables; by what layers keep; and by nothing.
local states = [[
return {
  data = { train = "text/*.txt", hold_out = 0.3, length = 64 },
  model = lt.nn.decoder { vocab = 40000, width = 320, layers = 1, heads = 4 },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 128, steps = 3, eval_tokens = 128 },
}
]]
local kept = [[
return {
  data = { train = "text/*.txt", length = { { 0, 64 }, { 3, 32 } } },
  model = lt.nn.decoder { width = 32, layers = lt.arg("layers", 12, "of the decoder"), heads = 2 },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 8192, steps = 6, micro_batch = function(plan) return plan.sequences end },
}
]]
local small = [[
return {
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = 32, layers = 2, heads = 2 },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 512, steps = 400, eval_every = 10, eval_tokens = 512 },
  save = { every = 20, keep = 1 },
  on_step = function(stats, state)
    state = state or {}
    state[#state % 8 + 1] = stats.loss
    return { ["lr.factor"] = 1 }, state
  end,
}
]]

local KB, MB = 1024, 1e6
local allowed = function(plan) return 1.05 * plan + 100 * MB end

describe("the memory of a run", function()
  local folder
  setup(function()
    folder = command.scratch()
    command.write_text(folder)
    command.write(folder .. "/watch.sh", watch)
  end)
  teardown(function() command.remove(folder) end)

  local function looks(look, span)
    local n, bytes = 0, 0
    for _, l in ipairs(look) do
      if l[1] >= span[1] and l[1] <= span[2] then n, bytes = n + 1, math.max(bytes, l[2]) end
    end
    return n, bytes
  end

  -- Train under watch → { { steps done, bytes held } } of each rank, the metrics, what was printed.
  local function train_once(name, text, ranks, more)
    local recipe, run = folder .. "/" .. name .. ".lua", folder .. "/" .. name .. (ranks or "")
    command.write(recipe, text)
    os.execute("rm -rf " .. run .. " " .. run .. ".held.*")
    local watched = string.format("sh %s/watch.sh '%s' %s --run %s %s", folder, command.path, recipe, run, more or "")
    local status, said
    if ranks then
      status, said = command.job_of(folder, "-x RUN=" .. run .. " -np " .. ranks .. " " .. watched)
    else
      command.write(folder .. "/one.sh", "RUN=" .. run .. " " .. watched .. " > " .. folder .. "/log 2>&1\n")
      status, said = os.execute("sh " .. folder .. "/one.sh"), command.read(folder .. "/log")
      status = status == true and 0 or status
    end
    assert.equal(0, status, said)
    local held, pipe = {}, io.popen("ls " .. run .. ".held.*")
    for path in pipe:lines() do
      local one = {}
      for n, kb in command.read(path):gmatch "(%d+) (%d+)" do one[#one + 1] = { tonumber(n), tonumber(kb) * KB } end
      held[#held + 1] = one
    end
    pipe:close()
    assert.equal(ranks or 1, #held)
    local _, records = command.metrics(run)
    return held, records, said
  end

  -- The same, once more where nobody looked in one of these spans of steps: on a busy machine the watch may come late.
  local function train(spans, ...)
    for _ = 1, 5 do
      local held, records, said = train_once(...)
      local seen = true
      for _, span in ipairs(spans) do
        for _, look in ipairs(held) do seen = seen and looks(look, span) > 0 end
      end
      if seen then return held, records, said end
    end
    error "nobody looked in five runs"
  end

  -- Most of what was held while steps `first` ... `last` ran.
  local function most(held, first, last)
    local n, bytes = looks(held, { first, last })
    assert.is_true(n > 0, "nobody looked")
    return bytes
  end

  local function near(plan, bytes)
    local words = string.format("planned %.1f MB, held %.1f MB", plan / MB, bytes / MB)
    assert.is_true(bytes <= allowed(plan), words)
    assert.is_true(bytes >= 0.9 * plan, words) -- the plan is no mere bound
  end

  it("is what was told before it began: states, and room for an evaluation", function()
    local held, records, said = train({ { 1, 2 } }, "states", states)
    local plan = tonumber(said:match "\nmemory  ([%d.]+) MiB a rank:") * KB * KB
    assert.is_true(plan > 550 * MB and records[1].memory > 430 * MB)
    near(plan, most(held[1], 0, math.huge))
    near(records[2].memory, most(held[1], 1, 2))
  end)

  it("is that of the step's length: kept values, and nothing of the plan before", function()
    local held, records = train({ { 1, 2 }, { 4, 5 } }, "kept", kept)
    assert.is_true(records[2].memory > 150 * MB)
    near(records[2].memory, most(held[1], 1, 2))
    near(records[6].memory, most(held[1], 4, 5))
  end)

  it("is that of each rank: what they share counts once", function()
    if not command.has_mpi() then return pending "there is no MPI in this build" end
    local held, records = train({ { 1, 2 } }, "kept", kept, 2, "--set layout.mesh.tp=2 layers=24 --steps 3")
    for rank = 1, 2 do near(records[2].memory, most(held[rank], 1, 2)) end
  end)

  it("does not grow with the number of steps", function()
    local held = train({ { 100, 200 }, { 300, 399 } }, "small", small)
    local early, late = most(held[1], 100, 200), most(held[1], 300, 399)
    -- Who looks while a save is written sees up to 0.8 MB more.
    assert.is_true(late <= early + 2 * MB, string.format("%.2f MB, then %.2f MB", early / MB, late / MB))
  end)
end)
