-- recall_spec.lua: recipes/recall.lua: its text is what make.lua says, its ranks exchange what its head says, and it
-- starts to learn. That it comes to recall, and why, is proved in recall_long_spec.lua.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"
local root = os.getenv "LT_TEST_DATA" .. "/../recipes/"

describe("recipes/recall.lua", function()
  local folder
  setup(function()
    folder = command.scratch()
    local status, said = command.run(folder, string.format("--script '%srecall/make.lua' %s/text.jsonl 60", root,
      folder))
    assert.equal(0, status, said)
  end)
  teardown(function() command.remove(folder) end)

  it("asks at the end for what the first half says, each document for a table of its own", function()
    local documents, tables = 0, {}
    for line in command.read(folder .. "/text.jsonl"):gmatch "[^\n]+" do
      local text = lt.json.decode(line).text
      assert.equal(2048, #text)
      local known, times = {}, {}
      for pair in text:sub(1, 1024):gmatch "%l[%u%d]" do
        local letter = pair:sub(1, 1)
        assert.equal(known[letter] or pair, pair)
        known[letter], times[letter] = pair, (times[letter] or 0) + 1
      end
      local asked = {}
      for letter in ("abcdefghijklmnop"):gmatch "." do
        assert.equal(32, times[letter])
        asked[#asked + 1] = known[letter]
      end
      asked = table.concat(asked)
      assert.equal(("."):rep(992) .. asked, text:sub(1025))
      assert.is_nil(tables[asked])
      documents, tables[asked] = documents + 1, true
    end
    assert.equal(60, documents)
  end)

  -- Two ranks in this process, a step of two documents each.
  local function train(name, arguments)
    local words = string.format("'%srecall.lua' text=$PWD/%s/text.jsonl --run %s/%s %s", root, folder, folder, name,
      arguments)
    local status, said = command.run(folder, words .. " --ranks 2 --steps 10 --set data.length=2048 " ..
      "--set data.hold_out=0.3 --set train.tokens=4096 --set train.eval_tokens=4096") -- of few texts, some
    assert.equal(0, status, said)
    local _, records = command.metrics(folder .. "/" .. name)
    return records
  end

  it("brings rank 1 the first half, and cut only what lies at the border", function()
    -- Keys and values of 64 floats each; once forward, once backward, and their gradients home; of two documents.
    local row = 2 * 64 * 4 * 3 * 2
    local whole, cut = train("whole", ""), train("cut", "cut=true")
    assert.equal(1 * row, whole[1].comm.layers[1].sent)
    assert.equal(1024 * row, whole[1].comm.layers[2].sent)
    assert.equal(255 * row, cut[1].comm.layers[2].sent)
    assert.is_true(whole[10].loss < whole[1].loss - 1, whole[10].loss)
    assert.is_true(cut[10].loss < cut[1].loss - 1, cut[10].loss)
  end)
end)
