-- check_spec.lua: what --check and the start of a run say: every setting with its origin, and the memory by its kinds.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
local width = lt.arg("width", 16, "of the stream")
local k = 2 * lt.arg("half", 1, "layers")
return {
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = width, layers = k, heads = lt.arg("heads", 2), ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = lt.lr.constant { peak = 1e-2 }, eps = 1e-9 },
  train = { tokens = 192, steps = 3 },
}
]]

local settings = [[
settings
  width=                                24                command line
  half=                                 1                 argument, default
  heads=                                2                 argument, default
  data.train                            { "text/*.txt" }  recipe.lua:4
  data.hold_out                         0.3               recipe.lua:4
  data.length                           { { 0, 32 } }     recipe.lua:4
  model                                 lt.nn.decoder     recipe.lua:5
  model.width                           24                recipe.lua:5, argument width
  model.layers                          2                 recipe.lua:5, argument half
  model.heads                           2                 recipe.lua:5, argument heads
  model.attention.window                16                --set model.attention.window=16
  model.ffn                             lt.nn.gelu        recipe.lua:5
  model.ffn.hidden                      24                recipe.lua:5
  optim                                 lt.optim.adamw    recipe.lua:6
  optim.lr                              lt.lr.constant    recipe.lua:6
  optim.lr.peak                         0.01              recipe.lua:6
  optim.eps                             1e-09             recipe.lua:6
  train.tokens                          192               recipe.lua:7
  train.steps                           5                 --set train.steps=5
  seed                                  0                 default
]]

describe("the command", function()
  local folder
  local function run(arguments) -- in the folder of the recipe
    local out = io.popen(string.format("cd '%s' && '%s' recipe.lua %s 2>&1; echo exit $?", folder, command.path,
      arguments))
    local said, status = out:read("*a"):match "^(.*)exit (%d+)\n$"
    out:close()
    return said, tonumber(status)
  end
  local function bytes(text) -- "21.76 MiB"
    local x, unit = text:match "^([%d%.]+) (%a+)$"
    return tonumber(x) * ({ B = 1, KiB = 2 ^ 10, MiB = 2 ^ 20 })[unit]
  end
  -- { kind = bytes } of the table of memory, and the bytes of the arena that it speaks of
  local function memory(said)
    local out = {}
    local rows = said:match "\nmemory .-\n(.*)$"
    for kind, size in rows:gmatch "\n?  (%l[%l ]-)%s+([%d%.]+ %a+)" do out[kind] = bytes(size) end
    return out, tonumber(said:match "memory [%d%.]+ %a+ %((%d+) B%)")
  end

  setup(function()
    folder = command.scratch()
    command.write_text(folder)
    command.write(folder .. "/recipe.lua", recipe)
  end)
  teardown(function() command.remove(folder) end)

  it("shows every setting and where it comes from", function()
    local said = run "--check width=24 --set train.steps=5 --set model.attention.window=16"
    assert.equal(settings, said:sub(1, #settings))
    assert.matches("\n  save%.keep +3 +default\n", said)
    for _, row in ipairs { "train.eval_length  32", "layout.mesh.dp  what the others leave", "layout.mesh.sp  1",
      "layout.inner  none", "layout.block  128, less for under 1024 tokens a rank" } do
      assert.matches("\n  " .. row:gsub("%p", "%%%0"):gsub("  ", " +") .. " +default\n", said)
    end
    said = run "--check --set layout.inner=1 --set layout.mesh.sp=1 --set train.eval_length=7"
    assert.matches("\n  layout%.inner +1 +%-%-set layout%.inner=1\n", said)
    assert.matches("\n  layout%.mesh%.sp +1 +%-%-set layout%.mesh%.sp=1\n", said)
    assert.matches("\n  train%.eval_length +7 +%-%-set train%.eval_length=7\n", said)
  end)
  it("shows what memory is for, and all of it", function()
    for _, more in ipairs { "", " --ranks 2 --set layout.mesh.sp=2 --set layout.exchange=all_gather",
      " --ranks 2 --set layout.mesh.tp=2" } do
      local said = run("--check" .. more)
      local use, arena = memory(said)
      local sum = 0
      for kind, n in pairs(use) do if kind ~= "together" then sum = sum + n end end
      assert.is_true(math.abs(sum - use.together) < 0.01 * sum, said)
      assert.is_true(math.abs(sum - use.data - use.evaluation - arena) < 0.01 * sum, said)
      assert.is_true(use.parameters > 0 and math.abs(use.optimizer / use.parameters - 2) < 0.1)
      assert.is_true(use["kept values"] > 0 and use.activations > 0 and use.evaluation > use.parameters)
      assert.equal(more ~= "", use.exchange > 0)
    end
    assert.equal(0, memory(run "--check --set data.hold_out=0").evaluation)
  end)
  it("lets training and evaluation fit the budget together", function()
    local free = memory(run "--check")
    local tight, units = 0, 0
    for share = 95, 55, -10 do
      local budget = math.floor(free.together * share / 100)
      local said, status = run("--check --set checkpoint.budget=" .. budget)
      if status == 0 then
        assert.is_true(memory(said).together <= budget * 1.001, said)
        tight, units = tight + 1, tonumber(said:match "(%d+) micro%-batches")
      else
        assert.matches("of which evaluation and data take", said)
      end
    end
    assert.is_true(tight >= 2 and units > 1)
    local small = math.floor(free.parameters * 5)
    local said, status = run("--check --set checkpoint.budget=" .. small)
    assert.equal(3, status)
    assert.matches("^%-%-set checkpoint%.budget=%d+: checkpoint%.budget: no plan fits", said)
  end)
  it("says that sequences are no longer than a step", function()
    local words = "data.length 32 is more than train.tokens: sequences are as long as a step"
    for _, what in ipairs { "--check", "--set train.steps=1 --run short" } do
      assert.not_matches(words, run(what), 1, true)
      assert.matches(words, run(what .. (what == "--check" and "" or "er") .. " --set train.tokens=16"), 1, true)
    end
  end)
  it("says at the start what is no default, and what it will take", function()
    local said, status = run "width=24 --set train.steps=2"
    assert.equal(0, status, said)
    assert.matches("^recipe  recipe%.lua\n  width= +24 +command line\n", said)
    assert.matches("\n  train%.steps +2 +%-%-set train%.steps=2\n  and %d+ defaults: %-%-check shows them\n", said)
    local all, step, parts, beside = said:match(
      "shows them\nmemory  ([%d%.]+ %a+) a rank: step ([%d%.]+ %a+) (%b()),(.-)\nrun  ")
    assert.matches("^%(parameters [%d%.]+ %a+, .*activations [%d%.]+ %a+%)$", parts)
    assert.matches("^%s+data [%d%.]+ %a+,%s+evaluation [%d%.]+ %a+$", beside)
    local function sum(text)
      local n = 0
      for size in text:gmatch "[%d%.]+ %a*B" do n = n + bytes(size) end
      return n
    end
    assert.is_true(math.abs(sum(parts) / bytes(step) - 1) < 0.01)
    assert.is_true(math.abs((bytes(step) + sum(beside)) / bytes(all) - 1) < 0.01)
    assert.matches(", " .. step .. " a rank\n", said, 1, true) -- of the length
    assert.matches("\nstep 1/%d+  loss .-  .- tokens/s  " .. step:gsub("%p", "%%%0") .. "  ", said) -- and of its steps
    assert.not_matches("save%.keep", said)
  end)
end)
