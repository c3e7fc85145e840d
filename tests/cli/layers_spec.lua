-- layers_spec.lua: bytes, waits and copies of every layer's exchange: in --check, in the metrics, at the end of a run.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 3,
  data = { train = "text/*.txt", length = lt.arg("grows", false) and { { 0, 64 }, { 2, 128 }, { 900, 64 } } or 64 },
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
    for i = 1, 60 do -- several documents a sequence
      command.write(string.format("%s/text/short%02d.txt", folder, i), ("x"):rep(3 + i % 20))
    end
  end)
  teardown(function() command.remove(folder) end)

  local sends = "\nrank [^\n]- sends [^\n]-%((%d+) B%), receives"
  local function layer_sends(line)
    local size, unit = line:match "^layer %d/attention +%a+ +([%d.]+) (%a+) "
    return size * (unit == "KiB" and 1024 or 1)
  end

  it("are predicted, counted and shown over two ranks", function()
    local status, said = command.run(folder, "--check --ranks 2 " .. file)
    assert.equal(0, status, said)
    local head, first, second = said:match "\n(exchange[^\n]*)\n  ([^\n]*)\n  ([^\n]*)\n"
    assert.is_truthy(head and head:find "sends" and head:find "at most", said)
    local line = "^layer %d/attention +%s +[%%d.]+ %%a+ +[%%d.]+ %%a+ +[%%d.]+ KiB$"
    assert.is_truthy(first:find(line:format(0, "direct")), said)
    assert.is_truthy(second:find(line:format(1, "ring")), said)
    local predicted = 0 -- of both ranks, in the mean of the steps
    assert.is_truthy(said:find("by the documents of steps 0 to 2;", 1, true), said)
    for bytes in said:gmatch(sends) do predicted = predicted + bytes end
    local window, ring = layer_sends(first), layer_sends(second)
    local whole = 0
    for bytes in select(2, command.run(folder, "--check --ranks 2 --set data.train=no.txt " .. file)):gmatch(sends) do
      whole = whole + bytes
    end
    assert.is_true(predicted < whole - 100, said) -- documents are shorter than sequences

    status, said = command.run(folder, file .. " --ranks 2 --run " .. folder .. "/two")
    assert.equal(0, status, said)
    local _, records = command.metrics(folder .. "/two")
    local sum, border = 0, 0
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
      sum, border = sum + layers[2].sent, border + layers[1].sent
      assert.is_true(layers[1].sent + layers[2].sent < records[step].comm.sent)
      predicted = predicted - records[step].comm.sent / 3
    end
    assert.is_true(math.abs(predicted) <= 1, said) -- to the byte: each rank's figure is rounded
    assert.is_true(sum > 0)
    for _, of in ipairs { { window, border / 3 }, { ring, sum / 3 } } do -- of one rank of the two: which sends more
      assert.is_true(of[1] >= 0.499 * of[2] and of[1] <= 1.001 * of[2], said)
    end
    assert.is_truthy(said:find "\nexchanged, a step, by all ranks", said)
    assert.is_truthy(said:find "\n  layer 1/attention +ring +[%d.]+ %a+ +[%d.e-]+ s +0 B", said)
  end)

  it("send what a border sees where a window is, whatever the sequence", function()
    local kv, row = 2 * 16, 4 -- features of keys and values, bytes of one
    for _, length in ipairs { 64, 256 } do
      local _, said = command.run(folder, "--check --ranks 2 " .. file .. " --set data.train=nowhere/*.txt"
        .. " --set train.tokens=" .. length .. " --set data.length=" .. length)
      assert.is_truthy(said:find("if every sequence is one document", 1, true), said)
      assert.is_truthy(said:find("not looked at: data.train[1]: ", 1, true), said)
      local window, all = said:match "layer 0/attention +direct +([%d.]+ %a+) .-layer 1/attention +ring +([%d.]+ %a+) "
      -- Rank 0 holds the first half: keys and values of 7 rows there, and again for the backward pass.
      assert.equal(2 * 7 * kv * row, 1024 * tonumber(window:match "^([%d.]+) KiB$"))
      assert.equal(2 * length / 2 * kv * row, 1024 * tonumber(all:match "^([%d.]+) KiB$"))
    end
  end)

  it("are those of the steps that a length has, and the run", function()
    local line = "\npredicted [^\n]- by the documents of (steps? [%d to]+);"
    local function played(more)
      local status, said = command.run(folder, "--check --ranks 2 " .. file .. " --set train.tokens=128 " .. more)
      assert.equal(0, status, said)
      local list = {}
      for steps in said:gmatch(line) do list[#list + 1] = steps end
      return list
    end
    assert.same({ "steps 0 to 1", "step 2" }, played "grows=true")
    assert.same({ "steps 0 to 1", "steps 2 to 5" }, played "grows=true --set train.steps=800")
    assert.same({ "steps 0 to 1", "step 2" }, played "grows=true --set train.steps=2") -- it has none
    assert.same({ "steps 0 to 3" }, played "--set train.steps=2000")
    assert.same({ "steps 0 to 1" }, played "--set train.steps=2")
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
