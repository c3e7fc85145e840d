-- layers_spec.lua: bytes, waits and copies of every layer's exchange: in --check, in the metrics, at the end of a run.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 3,
  data = { train = "text/*.txt", length = 64 },
  model = lt.nn.decoder { width = 16, layers = 2, heads = 2, attention = { window = { 8, false } } },
  optim = lt.optim.adamw { lr = lt.lr.constant { peak = 1e-3 } },
  layout = { mesh = { sp = "auto" }, exchange = { "direct", "ring" }, partition = "contiguous", block = 4 },
  train = { tokens = 64, steps = 3 },
}
]]

describe("the layers of a run", function()
  local folder, file
  setup(function()
    folder = command.scratch()
    file = folder .. "/recipe.lua"
    command.write(file, recipe)
    command.write_text(folder)
  end)
  teardown(function() command.remove(folder) end)

  it("are predicted, counted and shown over two ranks", function()
    local status, said = command.run(folder, "--check --ranks 2 " .. file)
    assert.equal(0, status, said)
    local head, first, second = said:match "\n(exchange[^\n]*)\n  ([^\n]*)\n  ([^\n]*)\n"
    assert.is_truthy(head and head:find "sends" and head:find "at most", said)
    assert.is_truthy(first:find "^layer 0/attention +direct +[%d.]+ KiB +[%d.]+ KiB$", said)
    assert.is_truthy(second:find "^layer 1/attention +ring +[%d.]+ KiB +[%d.]+ KiB$", said)

    status, said = command.run(folder, file .. " --ranks 2 --run " .. folder .. "/two")
    assert.equal(0, status, said)
    local _, records = command.metrics(folder .. "/two")
    local sum = 0
    for step = 1, 3 do
      local layers = records[step].comm.layers
      assert.equal(2, #layers)
      assert.equal("layer 0/attention", layers[1].layer)
      assert.equal("direct", layers[1].exchange)
      assert.equal("ring", layers[2].exchange)
      for _, l in ipairs(layers) do
        assert.is_true(l.sent == l.received and l.waited >= 0 and l.copied == 0)
        assert.is_true(l.sent <= 3 * 2 * 32 * 16 * 4) -- k and v, again, and dk and dv back, of half the tokens
      end
      assert.is_true(layers[1].sent <= 3 * 2 * 7 * 16 * 4) -- the window's border
      sum = sum + layers[2].sent
      assert.is_true(layers[1].sent + layers[2].sent < records[step].comm.sent)
    end
    assert.is_true(sum > 0)
    assert.is_truthy(said:find "\nexchanged, a step, by all ranks", said)
    assert.is_truthy(said:find "\n  layer 1/attention +ring +[%d.]+ %a+ +[%d.e-]+ s +0 B", said)
  end)

  it("are not there on one rank", function()
    local _, said = command.run(folder, "--check " .. file)
    assert.is_nil(said:find "\nexchange ")
    local status
    status, said = command.run(folder, file .. " --run " .. folder .. "/one")
    assert.equal(0, status, said)
    assert.is_nil(said:find "exchanged")
    local _, records = command.metrics(folder .. "/one")
    assert.is_nil(records[1].comm)
  end)
end)
