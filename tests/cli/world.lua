-- world.lua: for the specs of jobs: a recipe in a folder of its own, runs of it under mpirun and in one process.
-- A job must have the bits of the same layout walked in one process, and agree with one rank as far as float32 goes.
local command = require "command"
local assert = require "luassert"

local recipe = [[
local fail = lt.arg("fail", false, "err while the recipe is read")
if fail then error "this recipe cannot be read here" end
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3,
    length = lt.arg("grow", false, "longer sequences from step 6 on") and { { 0, 24 }, { 6, 60 } } or 24 },
  model = lt.nn.decoder { width = lt.arg("width", 24, "of the stream"), layers = 2, heads = 4, kv_heads = 2,
    dropout = 0.1, ffn = lt.nn.swiglu { hidden = 40 } },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 3e-3, warmup = 4 }, clip = 1 },
  layout = { mesh = { dp = "auto" }, block = 4 },
  train = { tokens = 200, steps = lt.arg("steps", 20, "of the run"), eval_every = 7, eval_tokens = 300 },
  save = { every = lt.arg("save", 10, "steps"), keep = 2 },
}
]]

local environment = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 " ..
  "OMPI_MCA_btl_base_warn_component_unused=0 OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 "
local mpirun = "mpirun -q --oversubscribe --bind-to none "

local world = { mpirun = mpirun, recipe = recipe }

-- The functions of a spec; they work once open() has made the folder.
function world.new()
  local w, folder, file = {}, nil, nil

  -- A whole line for the shell → exit status, all that was printed, seconds. "LTRAIN" stands for the command.
  function w.shell(line)
    local script = string.format("exec > '%s/log' 2>&1; %s\necho $? > '%s/status'\n", folder,
      line:gsub("LTRAIN", "'" .. command.path .. "'"), folder)
    command.write(folder .. "/script.sh", script)
    local begin = os.time()
    os.execute("timeout 60 env " .. environment .. " sh '" .. folder .. "/script.sh' 2> /dev/null")
    return tonumber(command.read(folder .. "/status")), command.read(folder .. "/log"), os.time() - begin
  end
  function w.job(ranks, arguments)
    return w.shell(string.format("%s -np %d LTRAIN %s %s", mpirun, ranks, file, arguments))
  end
  function w.train(name, ranks, arguments)
    local status, said = w.job(ranks, string.format("--run %s/%s %s", folder, name, arguments or ""))
    assert.equal(0, status, said)
    return command.metrics(folder .. "/" .. name)
  end
  function w.alone(name, arguments) return command.train(folder, name, arguments) end
  function w.agree(one, more, what)
    assert.equal(#one, #more)
    for i = 1, #one do
      for _, key in ipairs { "loss", "grad_norm", "eval_loss" } do
        local x, y = one[i][key], more[i][key]
        assert.equal(x == nil, y == nil)
        local bound = key == "grad_norm" and 1e-4 or 1e-5
        assert.is_true(x == nil or math.abs(x - y) <= bound * math.abs(x),
          string.format("%s, step %d, %s: %s, not %s", what, i - 1, key, tostring(y), tostring(x)))
      end
    end
  end
  function w.once(text, pattern)
    local _, n = text:gsub(pattern, "")
    assert.equal(1, n, text)
  end

  function w.open()
    folder, file = command.prepare(recipe)
    return folder, file
  end
  function w.close() command.remove(folder) end

  -- Number i of the layouts: { ranks, "axis=size", … }; one: what one rank came to.
  function w.check_layout(i, l, one)
    local set = " --set layout.mesh.dp=1"
    for k = 2, #l do set = set .. " --set layout.mesh." .. l[k] end
    if i % 3 == 0 then set = set .. " --set train.micro_batch=2" end
    local name = "layout" .. i
    local bits, records = w.train(name, l[1], set)
    w.agree(one, records, set)
    for s = 1, #one do
      local comm = records[s].comm
      assert.is_nil(one[s].comm)
      assert.is_true(records[s].loss == nil or comm.sent > 0 and comm.seconds > 0 and comm.waited >= 0, set)
    end
    assert.is_true(records[1].memory < one[1].memory, set) -- the work was split
    if i % 3 == 2 then assert.same((w.alone(name .. "walked", set .. " --ranks " .. l[1])), bits) end
  end

  -- half: a run of ten steps on four ranks; whole: one of twenty, `before` its records: as which the half goes on.
  function w.check_resumed(ranks, whole, before)
    os.execute(string.format("cp -r %s/half %s/on%d", folder, folder, ranks))
    local bits, after = w.train("on" .. ranks, ranks, "--resume" .. (ranks == 4 and " --set layout.mesh.tp=2" or ""))
    w.agree(before, after, "resumed on " .. ranks)
    if ranks == 4 then assert.same(whole, bits) end -- the same layout: the same bits
    local state = lt.json.decode(command.read(string.format("%s/on%d/saves/step-20/state.json", folder, ranks)))
    assert.equal(20, state.step)
    assert.equal(4000, state.cursor)
  end

  return w
end

return world
