-- kill_long_spec.lua: two hundred kills at drawn moments, many inside the write of a save: what is lost, what goes on.
-- A save every other step keeps a run in its writes for much of its time; hidden folders left behind count these kills.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local KILLS, EVERY, STEPS = 200, 2, 60

local recipe = string.format([[
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = { { 0, 32 }, { 25, 48 } } },
  model = lt.nn.decoder { width = 24, layers = 2, heads = 2, dropout = 0.1 },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 96, steps = %d, eval_every = 20, eval_tokens = 200 },
  save = { every = %d, keep = 3 },
}
]], STEPS, EVERY)

describe("a run killed again and again", function()
  local folder, file, whole
  local function run(arguments, seconds) return command.run(folder, file .. " " .. arguments, seconds) end
  local function list(path)
    local out, pipe = {}, io.popen("ls -A " .. path .. " 2> /dev/null")
    for name in pipe:lines() do out[#out + 1] = name end
    pipe:close()
    return out
  end

  -- The newest save by name, whether a write was cut off, and the steps the metrics have whole lines of.
  local function state_of(path)
    local newest, torn, steps = 0, false, 0
    for _, name in ipairs(list(path .. "/saves")) do
      newest = math.max(newest, tonumber(name:match "^step%-(%d+)$" or name:match "^step%-(%d+)%.old$") or 0)
      torn = torn or name:sub(1, 1) == "."
    end
    local f = io.open(path .. "/metrics.jsonl")
    for _ in (f and f:read "*a" or ""):gmatch "\n" do steps = steps + 1 end
    if f then f:close() end
    return newest, torn, steps
  end

  setup(function()
    folder, file = command.prepare(recipe)
    local status, said = run("--run " .. folder .. "/whole")
    assert.equal(0, status, said)
    whole = command.metrics(folder .. "/whole")
  end)
  teardown(function() command.remove(folder) end)

  it("loses no more than the steps since its last save, and repeats every loss to the bit", function()
    local draw = lt.random(17, "kills")
    local kills, torn, runs, seconds = 0, 0, 0, 0.5
    while kills < KILLS do
      runs = runs + 1
      local path = folder .. "/killed" .. runs
      local before = 0 -- what was saved
      repeat
        local status, said = run("--run " .. path .. (#list(path) > 0 and " --resume" or ""),
          kills < KILLS and seconds * (0.2 + draw:uniform()) or nil)
        assert.is_true(status == 0 or status == 137, said)
        assert.not_matches("refused", said) -- what has a save's name is whole
        local from = tonumber(said:match "going on from [^\n]*step%-(%d+)") or before
        assert.is_true(from >= before, said) -- nothing that was saved is lost
        if status == 137 then
          local newest, cut, steps = state_of(path)
          kills = kills + 1
          torn = torn + (cut and 1 or 0)
          assert.is_true(newest >= before and steps - newest <= EVERY,
            string.format("%d steps done, %d saved, %d before", steps, newest, before))
          seconds = newest == before and seconds * 1.1 or seconds * 0.97 -- as long as a few steps take here
          before = newest
        end
      until status == 0
      assert.same(whole, (command.metrics(path)))
      local events = command.events(path)
      assert.equal(#whole, #events)
      for i, event in ipairs(events) do assert.equal(i - 1, event.step) end
      command.remove_in(folder, "killed" .. runs)
    end
    print(string.format("%d kills, %d inside the write of a save, in %d runs", kills, torn, runs))
    assert.is_true(torn >= KILLS / 20, torn .. " kills inside a write")
  end)
end)
