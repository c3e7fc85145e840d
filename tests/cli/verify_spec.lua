-- verify_spec.lua: ltrain-lua --verify-layout: a recipe's own step on one rank and on every layout of some ranks.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 5,
  data = { train = "text/*.txt", length = 48 },
  model = lt.nn.decoder { width = 24, layers = 2, heads = 4, kv_heads = 2, dropout = 0.1,
    attention = { window = { 9, false } }, ffn = lt.nn.swiglu { hidden = 40 } },
  optim = lt.optim.adamw { lr = 1e-3, clip = 1 },
  train = { tokens = 480, steps = 20, micro_batch = 2 },
}
]]

describe("ltrain-lua --verify-layout", function()
  local folder, file
  local function run(arguments) return command.run(folder, file .. " --verify-layout " .. arguments) end
  setup(function()
    folder, file = command.prepare(recipe)
  end)
  teardown(function() command.remove(folder) end)

  it("finds that all layouts agree with one rank", function()
    local status, said = run "--ranks 2,3,4"
    assert.equal(0, status, said)
    assert.matches("one step of 216 tokens in 5 sequences, in double", said, 1, true)
    assert.matches("12 of 12 layouts agree with one rank", said, 1, true)
    assert.matches("3 ranks: dp 3, sp 1, tp 1; 1 micro-batch: agrees", said, 1, true)
    assert.matches("2 ranks: dp 1, sp 1, tp 2; 3 micro-batches: agrees", said, 1, true)
    for _, name in ipairs { "embed_tokens", "layers.1.self_attn.k_proj", "layers.0.mlp.down_proj", "lm_head" } do
      local gradient, size, update = said:match(name:gsub("%.", "%%.") ..
        "%.weight +gradient (%S+) %(largest (%S+)%), update (%S+)")
      assert.is_true(tonumber(gradient) < 1e-11 and (update == "equal" or tonumber(update) < 1e-11), name)
      assert.is_true(tonumber(size) > 1e-4, name)
    end
    assert.is_nil(said:find("nothing is proven", 1, true))
    for update in said:gmatch ": agrees[^\n]*" do
      assert.is_true(update:find(", equal gradients make equal updates, ", 1, true) ~= nil
        or update:find ", worst update from equal gradients [1-9]%.%de%-%d+ %(" ~= nil, update)
    end
    assert.is_nil(said:find("update 0", 1, true))
  end)

  it("compares the recipe's own mesh where it says one", function()
    local status, said = run "--ranks 4,6 --set layout.mesh.tp=2 --set layout.mesh.sp=2"
    assert.equal(0, status, said)
    assert.matches("1 of 1 layouts agree", said, 1, true)
    assert.matches("6 ranks: the recipe's mesh allows no such layout", said, 1, true)
  end)

  it("deals a sequence over sp as the recipe says", function()
    for _, partition in ipairs { "contiguous", "zigzag", "striped" } do
      local status, said = run("--ranks 3 --set layout.mesh.sp=3 --set layout.partition=" .. partition)
      assert.equal(0, status, said)
      assert.matches("1 of 1 layouts agree", said, 1, true)
    end
    local own = folder .. "/own.lua"
    command.write(own, (recipe:gsub("\n}\n$", [[

  layout = { mesh = { sp = 2 }, partition = function(s)
    local owner = {}
    for b = 1, s.blocks do owner[b] = b == 1 and 1 or (b + 1) %% 2 end
    return owner
  end },
}
]])))
    local status, said = command.run(folder, own .. " --verify-layout --ranks 2")
    assert.equal(0, status, said)
    assert.matches("1 of 1 layouts agree", said, 1, true)
    command.write(own, (recipe:gsub("\n}\n$", [[

  layout = { mesh = { sp = 2 }, partition = "weighted",
    weights = { 3, 1, 1 }, max_share = 1.6 },
}
]])))
    status, said = command.run(folder, own .. " --check --ranks 2")
    assert.equal(3, status, said)
    assert.matches("own.lua:9: layout.weights: a weighted partition needs a weight for every rank of sp\n" ..
      "  expected 2 numbers, got 3", said, 1, true)
    command.write(own, (recipe:gsub("^", "local n = 0\n"):gsub("\n}\n$", [[

  layout = { mesh = { sp = 2 }, partition = function(s)
    local owner = {}
    n = n + 1
    for b = 1, s.blocks do owner[b] = (b + n) %% s.ranks end
    return owner
  end },
}
]])))
    status, said = command.run(folder, own .. " --check --ranks 2")
    assert.equal(3, status, said)
    assert.matches("own.lua:9: layout.partition: gives two answers to one question", said, 1, true)
  end)

  it("wants to know the ranks", function()
    local status, said = run ""
    assert.equal(2, status)
    assert.matches("--ranks 2,3,4", said, 1, true)
    status, said = run "--ranks 2,x"
    assert.equal(2, status)
    assert.matches("got 2,x", said, 1, true)
    status, said = command.run(folder, file .. " --ranks 2,3")
    assert.equal(2, status)
    assert.matches("for --verify-layout", said, 1, true)
  end)
end)
