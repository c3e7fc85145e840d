-- bf16_spec.lua: ltrain-lua trains in bf16: the same bits twice and resumed, near float32, on ranks; saves in float32;
-- layouts are proved in double.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 5, dtype = "bf16",
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = 16, layers = 2, heads = 2, dropout = 0.1, tied = true },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-2, warmup = 4 } },
  train = { tokens = 192, steps = 12, micro_batch = 2, eval_every = 4, eval_tokens = 300 },
  save = { every = 5, keep = 3 },
}
]]

describe("ltrain-lua in bf16", function()
  local folder, file
  local function run(arguments) return command.run(folder, arguments) end
  local function train(name, more) return command.train(folder, name, more) end

  setup(function()
    folder, file = command.prepare(recipe)
  end)
  teardown(function() command.remove(folder) end)

  it("has the same bits twice, and where it was resumed; saves hold float32", function()
    local whole = train "whole"
    assert.same(whole, (train "again"))
    train("parts", "--steps 7")
    assert.same(whole, (train("parts", "--resume")))
    local save = folder .. "/whole/saves/step-12/"
    local seen = 0
    for _, path in ipairs(lt.data.files(save .. "*.safetensors")) do
      local f = lt.safetensors.open(path)
      for _, name in ipairs(f:names()) do
        assert.equal("f32", f:read(name).dtype)
        seen = seen + 1
      end
      f:close()
    end
    assert.is_true(seen > 10)
  end)

  it("learns what float32 learns", function()
    local _, narrow = train "narrow"
    local _, wide = train("wide", "--set dtype=f32")
    assert.is_true(narrow[1].memory < wide[1].memory)
    local equal = 0
    for i = 1, 12 do
      equal = equal + (wide[i].loss == narrow[i].loss and 1 or 0)
      assert.is_true(math.abs(wide[i].loss - narrow[i].loss) < 1e-2)
    end
    assert.is_true(equal < 4) -- it was computed in another type
    assert.is_true(narrow[12].loss < narrow[1].loss - 0.3)
  end)

  it("agrees with itself on ranks as near as with float32", function()
    local _, one = train "one"
    for _, mesh in ipairs { "dp=2", "sp=2", "tp=2" } do
      local axis = mesh:match "%a+"
      local _, many = train(axis, "--ranks 2 --set layout.mesh." .. mesh)
      for i = 1, 12 do assert.is_true(math.abs(one[i].loss - many[i].loss) < 1e-2, mesh .. ", step " .. i) end
    end
  end)

  it("proves its layouts in double", function()
    local status, said = run("--verify-layout --ranks 2 " .. file)
    assert.equal(0, status, said)
    assert.matches("in double", said, 1, true)
    assert.matches("3 of 3 layouts agree", said, 1, true)
  end)

  it("shows its casts", function()
    local status, said = run("--stage place " .. file)
    assert.equal(0, status, said)
    assert.matches("prepare weights\n[^\n]*bf16[^\n]*cast%([^\n]*model.embed_tokens.weight", said)
  end)
end)
