-- policy_spec.lua: step policies in whole runs: what they set, what they remember, how they fail, and that ranks agree.
-- A claim about bits compares with a run that was never interrupted, or with one whose recipe says it from the start.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

-- %s: statements before the recipe's table; and keys of it
local frame = [[
%s
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = 16, layers = 1, heads = 2, dropout = 0.1, ffn = lt.nn.gelu { hidden = 24 } },
  train = { tokens = 128, steps = 10, eval_every = 2, eval_tokens = 128 },
  save = { every = 4, keep = 9 },
  %s
}
]]
local adamw = "optim = lt.optim.adamw { lr = function(step) return step > 0 and 1e-2 or 0 end },"

describe("A step policy", function()
  local folder
  setup(function()
    folder = command.scratch()
    command.write_text(folder)
  end)
  teardown(function() command.remove(folder) end)

  local number = 0
  local function write(before, keys)
    number = number + 1
    local file = string.format("%s/r%d.lua", folder, number)
    command.write(file, frame:format(before, keys:find "optim =" and keys or adamw .. "\n  " .. keys))
    return file, string.format("%s/run%d", folder, number)
  end
  local function run(file, arguments) return command.run(folder, file .. " " .. arguments) end
  -- What a recipe came to: its metrics, records, and folder.
  local function train(before, keys, arguments)
    local file, to = write(before, keys)
    local status, said = run(file, "--run " .. to .. " " .. (arguments or ""))
    assert.equal(0, status, said)
    local lines, records = command.metrics(to)
    return lines, records, to, file
  end
  local function state_of(to, step)
    return lt.json.decode(command.read(to .. "/saves/step-" .. step .. "/state.json"))
  end
  local function without_controls(lines)
    local out = {}
    for i, line in ipairs(lines) do out[i] = line:gsub(',?"controls":{[^}]*}', "") end
    return out
  end
  local function count(text, pattern) return (select(2, text:gsub(pattern, ""))) end
  local function escaped(text) return (text:gsub("%p", "%%%0")) end

  it("sets what the schedule reads", function()
    local said = train("", "optim = lt.optim.adamw { weight_decay = 0.3, " ..
      "lr = function(step) return step > 0 and 1e-2 or 0 end },")
    local steered, records = train("", 'on_step = function() return { ["optim.weight_decay"] = 0.3 } end,')
    assert.same(said, without_controls(steered))
    assert.is_nil(records[1].controls)
    assert.equal(0.3, records[2].controls["optim.weight_decay"])
    local plain = train("", "")
    assert.not_same(said, plain)
    for _, set in ipairs { '["optim.clip"] = 1e-3', '["model.dropout"] = 0.5', '["lr.factor"] = 0.25' } do
      local lines, changed = train("",
        "on_step = function(stats) return stats.step >= 3 and { " .. set .. " } or nil end,")
      for i = 1, 4 do assert.equal(plain[i], lines[i]) end
      assert.not_equal(plain[6], without_controls(lines)[6])
      assert.is_table(changed[6].controls)
    end
    local _, slower = train("", 'on_step = function() return { ["lr.factor"] = 0.25 } end,')
    assert.equal(0.0025, slower[5].lr)
  end)

  it("sets controls of its own, read by a layer", function()
    local before = [[
local push = lt.control { name = "push", default = 0, range = { 0, 2 } }
local function ffn(x, ctx)
  return lt.op.gelu(ctx:linear("p", x, x.width)) * lt.op.fill { value = ctx:control(push) }
end]]
    local model = 'model = lt.nn.decoder { width = 16, layers = 1, heads = 2, ffn = ffn },'
    local zero = train(before, model)
    local pushed = train(before, model .. " on_step = function(stats) return { push = stats.step } end, train = { " ..
      "tokens = 128, steps = 3, eval_every = 2, eval_tokens = 128 },")
    for i = 1, 2 do assert.equal(zero[i], pushed[i]) end -- push is 0 after step 0 too
    assert.not_equal(zero[3], without_controls(pushed)[3])
  end)

  it("is asked with the last step's counts and losses, and what it returned", function()
    local before = [[
local function watch(stats, state)
  state = state or { seen = {}, [1] = "one", ["1"] = "text", inf = math.huge, nan = 0 / 0, deep = { { { true } } } }
  assert(stats.step == #state.seen and state[1] == "one" and state["1"] == "text")
  assert(state.inf == math.huge and state.nan ~= state.nan and state.deep[1][1][1] == true)
  assert(stats.loss > 0 and stats.tokens == 128 and stats.count <= 128 and stats.grad_norm > 0 and stats.applied)
  assert(stats.controls["lr.factor"] == 1 and not stats.seconds and not stats.memory)
  assert((stats.eval_loss ~= nil) == ((stats.step + 1) % 2 == 0))
  state.seen[#state.seen + 1] = stats.loss
  return nil, state
end]]
    local whole, records, to = train(before, "on_step = watch,")
    local kept = state_of(to, 10).policy
    assert.equal(9, #kept.state.on_step.seen)
    for i = 1, 9 do assert.equal(records[i].loss, kept.state.on_step.seen[i]) end
    assert.equal(9, kept.stats.step)
    -- The same in pieces.
    local _, _, parts, file = train(before, "on_step = watch,", "--steps 3")
    for _, steps in ipairs { 7, 10 } do
      local status, said = run(file, "--resume --run " .. parts .. " --steps " .. steps)
      assert.equal(0, status, said)
    end
    assert.same(whole, (command.metrics(parts)))
    assert.same(command.read(to .. "/saves/step-10/state.json"):match '"policy".*',
      command.read(parts .. "/saves/step-10/state.json"):match '"policy".*')
  end)

  it("lowers a control on a plateau, ready made", function()
    local _, records = train("", 'optim = lt.optim.adamw { lr = 0 }, ' .. -- nothing is learned: no loss is better
      'on_step = lt.policy.plateau { patience = 2, floor = 0.3 },')
    local factor = {}
    for i = 1, 10 do factor[i] = records[i].controls and records[i].controls["lr.factor"] or 1 end
    assert.same({ 1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5 }, factor)
  end)

  -- Ends with status 3 after step 5 and a save of it; the message matches, once.
  local function stops(policy, patterns, more)
    local file, to = write(policy, "on_step = on_step,")
    local status, said = run(file, "--run " .. to .. " " .. (more or ""))
    assert.equal(3, status, said)
    for _, pattern in ipairs(patterns) do assert.equal(1, count(said, pattern:gsub("FILE", escaped(file))), said) end
    assert.equal(6, state_of(to, 6).step)
    assert.equal(1, count(said, "step 6 is saved: %-%-run " .. escaped(to) .. " %-%-resume goes on from there\n"), said)
    return file, to
  end

  local function failing(what)
    return "local on_step = function(stats, n)\n  if stats.step == 5 then " .. what ..
      " end\n  return nil, (n or 0) + 1\nend"
  end

  it("that errs ends the run after a save", function()
    stops(failing "local x = stats.lost.way", { "FILE:2: [^\n]*attempt to index field 'lost'" })
    local file, to = stops(failing "error 'no more'", { "FILE:2: on_step: no more" })
    -- Mended it goes on, and is asked again what it failed at.
    local good = "local on_step = function(_, n) return nil, (n or 0) + 1 end\n"
    local whole = train(good, "on_step = on_step,")
    command.write(file, frame:format(good, adamw .. "\n  on_step = on_step,"))
    local status, said = run(file, "--resume --run " .. to)
    assert.equal(0, status, said)
    assert.same(whole, (command.metrics(to)))
    assert.equal(9, state_of(to, 10).policy.state.on_step)
    stops(failing "error 'no more'", { "FILE:2: on_step: no more" }, "--ranks 2")
  end)

  it("that is slow is ended by the watchdog", function()
    local begin = os.time()
    stops(failing "while true do end",
      { "FILE:2: on_step: the policy, asked after step 5, took more than 1 s of processor time and was ended" })
    assert.is_true(os.time() - begin < 15)
  end)

  it("may set what is declared, within its range", function()
    stops(failing "return { ['lr.facto'] = 1 }",
      { "FILE:1: on_step: there is no control 'lr.facto'", "did you mean 'lr.factor'" })
    stops(failing "return { ['lr.factor'] = -1 }",
      { "FILE:1: on_step: control 'lr.factor' is out of its range", "expected 0 to 1000000, got %-1" })
    stops(failing "return { ['lr.factor'] = 0 / 0 }", { "control 'lr.factor' is out of its range" })
    stops(failing "return { ['lr.factor'] = 'half' }", { "what a policy sets are numbers" })
    stops(failing "return 7", { "a policy returns a table of controls" })
  end)

  it("remembers plain data", function()
    stops(failing "return nil, { f = { stats, print } }", { "FILE:1: state.f%[2%]: this is no plain data" })
    stops(failing "local t = {} t.t = { t } return nil, t", { "state.t%[1%]: a table lies inside itself" })
    stops(failing "return nil, { [0.5] = 1 }", { "a key of plain data is a string or a whole number" })
    stops(failing "local t = {} for _ = 1, 17 do t = { t } end return nil, t", { "tables lie too deep" })
    local _, _, to = train("local function deep() local t = {} for _ = 1, 15 do t = { t } end return nil, t end",
      "on_step = deep,")
    assert.is_table(state_of(to, 10).policy.state.on_step)
  end)

  it("sees times as on_speed, and may set nothing else then", function()
    local before = [[
lt.control { name = "depth", kind = "speed", default = 1, range = { 1, 4 } }
local function on_speed(times, n)
  assert(times.seconds > 0 and times.tokens_per_s > 0 and not times.loss)
  return { depth = times.step % 3 == 2 and 3 or times.controls.depth }, (n or 0) + 1
end]]
    local plain = train("", "")
    local lines, records, to, file = train(before, "on_speed = on_speed,", "--steps 6")
    for i = 1, 6 do assert.equal(plain[i], without_controls(lines)[i]) end
    assert.equal(3, records[4].controls.depth)
    assert.equal('{"step":3,"depth":3}\n', command.read(to .. "/speed.jsonl"))
    os.execute("rm -r " .. to .. "/saves/step-6") -- steps 4 and 5 run again, and read the log
    local status, said = run(file, "--resume --run " .. to)
    assert.equal(0, status, said)
    assert.equal('{"step":3,"depth":3}\n', command.read(to .. "/speed.jsonl"))
    assert.same(plain, without_controls((command.metrics(to))))
    -- What has a line runs as it did, whatever the policy would say now: steps 4, 5, and 6 with a held-out loss alone.
    local other, again = write(before, "on_speed = on_speed,")
    status, said = run(other, "--steps 6 --run " .. again)
    assert.equal(0, status, said)
    os.execute("rm -r " .. again .. "/saves/step-6")
    command.write(other, (command.read(other):gsub("times.step %% 3 == 2 and 3 or times.controls.depth", "4")))
    status, said = run(other, "--resume --run " .. again)
    assert.equal(0, status, said)
    local depth = {}
    local _, ran = command.metrics(again)
    for i = 1, 10 do depth[i] = ran[i].controls and ran[i].controls.depth or 1 end
    assert.same({ 1, 1, 1, 3, 3, 3, 3, 4, 4, 4 }, depth)
    assert.equal('{"step":3,"depth":3}\n{"step":7,"depth":4}\n', command.read(again .. "/speed.jsonl"))
    for i, event in ipairs(command.events(again)) do assert.equal(i - 1, event.step) end -- none of another log
    file = write(before:gsub("depth = times.step.-controls.depth", '["lr.factor"] = 2'), "on_speed = on_speed,")
    status, said = run(file, "--run " .. to .. "bad")
    assert.equal(3, status, said)
    assert.matches("'lr.factor' changes numbers: what sees times may set controls of the kind \"speed\" only", said,
      1, true)
  end)

  it("of the plan chooses micro-batches and recomputed layers", function()
    local facts = "assert(f.ranks == 2 and f.dp == 2 and f.tokens == 128 and f.length == 32 and f.layers == 1) "
    local keys = "train = { tokens = 128, steps = 4, micro_batch = function(f) " .. facts ..
      "return f.sequences / %s end }," ..
      "checkpoint = { layers = function(f) " .. facts .. "return %s end },"
    for _, layers in ipairs { 0, 1 } do
      local file = write("", keys:format("2", layers))
      local status, said = run(file, "--check --ranks 2")
      assert.equal(0, status, said)
      assert.matches("2 micro%-batches", said)
      assert.equal(layers == 0, said:find "layer 0 keeps all" ~= nil, said)
    end
    local file = write("", keys:format("8", "0"))
    local status, said = run(file, "--check --ranks 2")
    assert.equal(3, status, said)
    assert.matches(file .. ":9: train.micro_batch: a plan function returns an integer\n  expected 1 to 2, got 0.25",
      said, 1, true)
  end)

  it("is asked twice by --check", function()
    local function refused(before, keys, where, key, hint)
      local file = write(before, keys)
      local status, said = run(file, "--check")
      assert.equal(3, status, said)
      assert.matches(file .. ":" .. where .. ": " .. key .. ": gives two answers to one question", said, 1, true)
      assert.matches("\n  hint: " .. (hint or "nothing may be remembered between calls") .. "\n$", said)
    end
    local state = "what is remembered between calls must be its state: the second value it gets and returns"
    local counter = "local n = 0\nlocal function f(stats, state)\n  n = n + 1\n" ..
      "  return { ['lr.factor'] = 1 / n }, state\nend"
    refused(counter, "on_step = f,", 2, "on_step", state)
    refused(counter, "on_step = { lt.policy.plateau {}, f },", 2, "on_step[2]", state)
    refused("local n = 0\nlocal function lr() n = n + 1 return n / 100 end", "optim = lt.optim.adamw {\n lr = lr },",
      10, "optim.lr")
    refused([[local n = 0
local function ffn(x, ctx)
  n = n + 1
  return lt.op.scale(ctx:linear("p", x, x.width), { alpha = n })
end]], "model = lt.nn.decoder { width = 16, layers = 1, heads = 2, ffn = ffn },", 4, "model")
    local file = write("local function f(stats, n) return { ['lr.factor'] = 1 / (n or 1) }, (n or 0) + 1 end",
      "on_step = { f, lt.policy.plateau {} },")
    local status, said = run(file, "--check")
    assert.equal(0, status, said)
  end)

  it("is the same on all ranks, or the job ends", function()
    if not command.has_mpi() then return pending "there is no MPI in this build" end
    local file, to = write("local function f(stats, n) return { ['lr.factor'] = 1 / (n or 1) }, (n or 1) + 1 end",
      "on_step = f,")
    assert.equal(0, (run(file, "--ranks 2 --run " .. to .. "a")))
    local status, said = command.job(folder, 2, file .. " --run " .. to)
    assert.equal(0, status, said)
    assert.same((command.metrics(to .. "a")), (command.metrics(to)))
    assert.same(state_of(to .. "a", 10).policy, state_of(to, 10).policy)
    -- Ranks that find another helper beside their recipe: what only a policy reads is in no graph.
    local text = frame:format(
      "local knob = require 'knob'\nlocal function f(s) return { ['lr.factor'] = knob(s.step) } end",
      adamw .. "\n  on_step = f,")
    local function differ(other)
      for i, knob in ipairs { "return function(step) return 1 end", other } do
        local at = folder .. "/rank" .. i
        os.execute("mkdir -p " .. at .. " && cp -r " .. folder .. "/text " .. at)
        command.write(at .. "/r.lua", text)
        command.write(at .. "/knob.lua", knob)
      end
      to = to .. "x"
      local program = "'" .. command.path .. "' r.lua --run ../" .. to:match "[^/]+$"
      return command.job_of(folder, "-np 1 -wdir " .. folder .. "/rank1 " .. program .. " : -np 1 -wdir " .. folder ..
        "/rank2 " .. program)
    end
    status, said = differ "return function(step) return step == 5 and 2 or 1 end"
    assert.equal(3, status, said)
    assert.equal(1, count(said, "r.lua:2: on_step: rank 1 does not run what the others run: " ..
      "the answer of policy 'on_step' differs"),
      said)
    assert.equal(6, state_of(to, 6).step)
    status, said = differ "return function(step) if step == 5 then error 'lost' end return 1 end"
    assert.equal(3, status, said)
    assert.equal(1, count(said, "rank 1: lost"), said)
    assert.equal(6, state_of(to, 6).step)
  end)

  it("may be the one that hides transfers, where hops have a depth", function()
    train("", 'layout = { max_depth = 3, depth = 1 }, on_speed = lt.policy.hide {},')
    local file = write("", "on_speed = lt.policy.plateau {},")
    local status, said = run(file, "--check")
    assert.equal(3, status)
    assert.matches("on_speed", said)
  end)
end)
