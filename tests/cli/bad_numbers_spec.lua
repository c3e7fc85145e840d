-- bad_numbers_spec.lua: steps whose loss or gradient is not finite: not applied, their cause named, and the end of it.
-- Every case says which operation made the number, on which line; the same on one rank, on a mesh in one process, and
-- under mpirun.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

-- A feed-forward layer that goes wrong in layer 1 from a step on, as `bad` says, on the line marked by it.
local recipe = [[
local op = lt.op
local bad = lt.arg("bad", "none", "what goes wrong")
local function faulty(x, ctx)
  local h = op.relu(ctx:linear("up_proj", x, 24))
  if bad == "divide" and ctx.layer == 1 then
    h = h / (h - h)                                   -- divide
  elseif bad == "overflow" and ctx.layer == 0 then
    h = op.scale(op.exp(op.scale(h, { alpha = 0, beta = 80 })), { alpha = 1e5 }) * h -- overflow
  end
  return ctx:linear("down_proj", h, x.width, { tp = "in" })
end
local function model(ctx)
  local x = op.embedding(ctx:feed "token", ctx:param("embedding", { 256, 16 }, { tp = 0 }))
  for layer = 0, 1 do
    ctx.layer = layer
    local y = ctx:scope("layer " .. layer, faulty, x, ctx)
    x = x + y
  end
  if bad == "infinite" then -- on purpose: what is hidden weighs nothing
    x = x * op.exp(op.fill { value = -math.huge, d0 = 16 }) + x
  end
  local loss = ctx:cross_entropy(x, ctx:param("head", { 256, 16 }))
  if bad == "letter" then -- the logarithm of nothing where the text has a Z, divided over the tokens
    local byte = op.cast(ctx:feed "token", { dtype = "f32" })
    local other = op.scale(op.equal(byte, op.fill { value = 90 }), { alpha = -1, beta = 1 })
    loss = loss + op.sum(op.log(other)) * 1e-3          -- letter
  elseif bad == "loss" then
    loss = loss + op.log(op.fill { value = 0 })         -- loss
  end
  return loss
end
return {
  data = { train = { "text/*.txt", "odd.txt" }, length = 16 },
  model = model,
  optim = lt.optim.adamw { lr = 1e-2, clip = lt.arg("clip", 1, "of the norm") },
  layout = { mesh = { dp = "auto", tp = lt.arg("tp", 1, "ranks") } },
  train = { tokens = 128, steps = 40, bad_steps = lt.arg("bad_steps", 3, "in a row") },
  save = { every = 0 },
}
]]

local line = {}
do
  local n = 0
  for text in recipe:gmatch "([^\n]*)\n" do
    n = n + 1
    local mark = text:match "%-%- (%a+)$"
    if mark then line[mark] = n end
  end
end

describe("A step that is not finite", function()
  local folder, file
  setup(function()
    folder, file = command.prepare(recipe)
    command.write(folder .. "/odd.txt", ("x = Z\n"):rep(4))
  end)
  teardown(function() command.remove(folder) end)

  local number = 0
  -- status, what was said, the records of the metrics, the folder
  local function train(arguments)
    number = number + 1
    local run = folder .. "/run" .. number
    local status, said = command.run(folder, string.format("%s %s --run %s", file, arguments, run))
    local _, records = command.metrics(run)
    return status, said, records, run
  end
  local function count(text, pattern) return (select(2, text:gsub(pattern, ""))) end

  -- The run gives up after three steps, having named `what` at the marked line.
  local function gives_up(arguments, what, mark, more)
    local status, said, records, run = train("bad=" .. mark .. " " .. arguments)
    assert.equal(1, status, said)
    assert.equal(3, #records, said)
    local place = string.format("%s %%(%s:%d%%)%s", what, file:gsub("%p", "%%%0"), line[mark], more or "")
    for i, r in ipairs(records) do
      assert.equal(false, r.applied)
      local warning = string.format("warning: step %d is not applied: [^\n]*first in %s", i - 1, place)
      assert.equal(1, count(said, warning), said)
    end
    assert.equal(1, count(said, "3 steps in a row were not applied"), said)
    assert.matches(string.format("recipe.lua:%d: %s: 3 steps in a row", line[mark], what), said)
    assert.equal(0, count(said, "%-nan"), said)
    local state = lt.json.decode(command.read(run .. "/saves/step-3/state.json"))
    assert.equal(3, state.step)
    assert.equal(0, state.updates)
    return records, said, run
  end

  it("that divides by zero is laid on the operation that did", function()
    local records = gives_up("", "layer 1 div", "divide")
    assert.equal("nan", records[1].loss)
    assert.equal("nan", records[1].grad_norm)
  end)

  it("has its loss looked at where gradients are finite and nothing is clipped", function()
    local records = gives_up("clip=0", "log", "loss")
    assert.equal("-inf", records[1].loss)
    assert.is_true(records[1].grad_norm > 0)
  end)

  it("that overflows is laid on the operation in which it did", function()
    local _, said = gives_up("", "layer 0 scale", "overflow")
    assert.matches("values are not finite, the first is inf", said)
  end)

  it("names its rank on a mesh of two axes", function()
    gives_up("tp=2 --ranks 4", "layer 1 div", "divide",": on rank %d")
    gives_up("tp=2 clip=0 --ranks 4", "log", "loss",": on rank %d")
  end)

  it("on one rank of several is laid on what happened there", function()
    local status, said, records = train("bad=letter --ranks 4 --set layout.mesh.dp=2 tp=2 bad_steps=20")
    assert.equal(0, status, said)
    local skipped = 0
    for _, r in ipairs(records) do skipped = skipped + (r.applied == false and 1 or 0) end
    assert.is_true(skipped >= 1 and skipped < 20)
    assert.equal(skipped, count(said, "is not applied"), said)
    assert.equal(skipped, count(said, "first in log %(" .. file:gsub("%p", "%%%0") .. ":" .. line.letter ..
      "%): on rank %d[^\n]*: %d+ of %d+ values are not finite, the first is %-inf"), said)
  end)

  it("is named once by the ranks of a job", function()
    if not command.has_mpi() then return pending "there is no MPI in this build" end
    local run = folder .. "/job"
    local status, said = command.job(folder, 4, file .. " bad=divide tp=2 --run " .. run)
    assert.equal(1, status, said)
    local place = "layer 1 div %(" .. file:gsub("%p", "%%%0") .. ":" .. line.divide .. "%): on rank 0"
    assert.equal(3, count(said, "is not applied: [^\n]*first in " .. place), said)
    assert.equal(1, count(said, "3 steps in a row were not applied"), said)
    assert.equal(3, lt.json.decode(command.read(run .. "/saves/step-3/state.json")).step)
    -- A number made on one rank, and met by the others in their sums.
    status, said = command.job(folder, 4, file .. " bad=letter tp=2 bad_steps=20 --run " .. run .. "2")
    assert.equal(0, status, said)
    assert.is_true(count(said, "first in log %([^\n]*:" .. line.letter .. "%): on rank %d") >= 1, said)
    assert.equal(count(said, "is not applied"), count(said, "first in log %([^\n]*:" .. line.letter .. "%)"))
  end)

  it("does not come of an infinity that was meant", function()
    local status, said, records = train "bad=infinite --steps 5"
    assert.equal(0, status, said)
    for i = 1, 5 do assert.is_nil(records[i].applied) end
  end)

  it("counts in a row, also over a resumption, and is passed over", function()
    local status, said, _, run = train "bad=divide bad_steps=5 --steps 3"
    assert.equal(0, status, said)
    status, said = command.run(folder, file .. " bad=divide bad_steps=5 --resume --run " .. run)
    assert.equal(1, status, said)
    local _, records = command.metrics(run)
    assert.equal(5, #records)
    status, said = command.run(folder, file .. " --resume --steps 9 --run " .. run) -- mended
    assert.equal(0, status, said)
    _, records = command.metrics(run)
    for i = 6, 9 do assert.is_nil(records[i].applied) end
    assert.is_true(records[9].loss < records[6].loss)
  end)
end)
