-- length_spec.lua: sequences that grow and shrink by step: a program a length, the same bytes, resumed anywhere.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 5, dtype = lt.arg("dtype", "f32"),
  data = { train = "text/*.txt", hold_out = 0.3, length = { { 0, 32 }, { 4, 100 }, { 8, 32 } } },
  model = lt.nn.decoder { width = 16, layers = 1, heads = 2, dropout = 0.1, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = 1e-2 },
  train = { tokens = 192, steps = 11, micro_batch = 1, eval_every = 3, eval_tokens = 300 },
  save = { every = 1, keep = 20 },
}
]]

describe("a length by step", function()
  local folder, file, whole, records
  local function train(name, more) return command.train(folder, name, more) end

  setup(function()
    folder, file = command.prepare(recipe)
    whole, records = train "whole"
  end)
  teardown(function() command.remove(folder) end)

  it("has a plan for each length, told before it runs", function()
    local status, said = command.run(folder, file .. " --check --ranks 2 --set data.train=nowhere/*.txt")
    assert.equal(0, status, said)
    assert.matches("192 tokens in at most 6 sequences of at most 32", said, 1, true)
    assert.matches("192 tokens in at most 2 sequences of at most 100", said, 1, true)
    assert.matches("evaluation  sequences of at most 100", said, 1, true)
    local _, plans = said:gsub("\nstep  ", "")
    assert.equal(2, plans)
    status, said = command.run(folder, file .. " --stage verify")
    assert.equal(0, status, said)
    assert.matches("length 32:\n.*\nlength 100:\n", said)
  end)

  it("holds in each step the memory of its own length", function()
    local short, long = records[1].memory, records[5].memory
    assert.not_equal(short, long)
    for i = 1, 11 do
      assert.equal(192, records[i].tokens)
      assert.equal((i <= 4 or i > 8) and short or long, records[i].memory)
    end
    local state = lt.json.decode(command.read(folder .. "/whole/saves/step-9/state.json"))
    assert.equal(9 * 192, state.cursor)
  end)

  it("evaluates at one length throughout", function()
    -- the same parameters at two lengths: a run whose steps are all short evaluates as one that grows
    command.write(folder .. "/short.lua", (recipe:gsub("length = %b{} }", "length = 32 }")
      :gsub("eval_every = 3", "eval_every = 3, eval_length = 100")))
    local status, said = command.run(folder, folder .. "/short.lua --run " .. folder .. "/short")
    assert.equal(0, status, said)
    local _, short = command.metrics(folder .. "/short")
    assert.equal(records[4].eval_loss, short[4].eval_loss)
    assert.not_equal(records[7].eval_loss, short[7].eval_loss) -- it has learned from other sequences by then
    status, said = command.run(folder, folder .. "/short.lua --steps 4 --set train.eval_length=32 --run "
      .. folder .. "/other")
    assert.equal(0, status, said)
    local _, other = command.metrics(folder .. "/other")
    assert.not_equal(records[4].eval_loss, other[4].eval_loss)
  end)

  it("goes on from a save of any step, bit for bit", function()
    for _, at in ipairs { 1, 4, 5, 8, 10 } do
      local name = "at" .. at
      train(name, "--steps " .. at)
      local lines, _, said = train(name, "--resume")
      assert.same(whole, lines)
      assert.not_matches("losses agree to rounding", said)
    end
  end)

  it("agrees with itself on 3 ranks", function()
    local _, one = train("one", "dtype=f64")
    local _, more = train("three", "dtype=f64 --ranks 3")
    for i = 1, #one do
      for _, key in ipairs { "loss", "grad_norm", "eval_loss" } do
        local x, y = one[i][key], more[i][key]
        assert.is_true(x == y or math.abs(x - y) <= 1e-10 * math.abs(x))
      end
    end
  end)
end)
