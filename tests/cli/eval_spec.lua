-- eval_spec.lua: ltrain-lua --eval: what a run said of its held-out text, again, and by position; on any ranks.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local recipe = [[
return {
  seed = 5,
  data = { train = "text/*.txt", hold_out = 0.3, length = 32 },
  model = lt.nn.decoder { width = 16, layers = 1, heads = 2, dropout = 0.1, ffn = lt.nn.gelu { hidden = 24 } },
  optim = lt.optim.adamw { lr = 1e-2 },
  train = { tokens = 192, steps = 6, eval_tokens = 300 },
  save = { every = 3 },
}
]]

describe("ltrain-lua --eval", function()
  local folder, file, last

  local function run(arguments, status)
    local got, said = command.run(folder, arguments)
    assert.equal(status or 0, got, said)
    return said
  end
  local function eval(more) return run(string.format("--eval %s --run %s/a %s", file, folder, more or "")) end
  local function check(v)
    assert.equal(6, v.step)
    assert.equal(300, v.tokens)
    assert.is_true(math.abs(v.perplexity - math.exp(v.loss)) < 1e-9)
    assert.equal(6, #v.positions)
    local loss, count, next_one = 0, 0, 0
    for _, p in ipairs(v.positions) do
      assert.equal(next_one, p.first)
      assert.is_true(p.count > 0 and p.loss > 0 and math.abs(p.perplexity - math.exp(p.loss)) < 1e-9)
      loss, count, next_one = loss + p.loss * p.count, count + p.count, p.last + 1
    end
    assert.equal(32, next_one)
    assert.equal(v.count, count)
    assert.is_true(math.abs(loss / count - v.loss) < 1e-6)
    return v
  end

  setup(function()
    folder, file = command.prepare(recipe)
    run(file .. " --run " .. folder .. "/a")
    local _, records = command.metrics(folder .. "/a")
    last = records[#records]
    assert.equal(6, last.step)
  end)
  teardown(function() command.remove(folder) end)

  it("measures what the run itself did at its end, to the bit", function()
    local v = check(lt.json.decode(eval "--json"))
    assert.equal(last.eval_loss, v.loss)
    assert.equal(last.eval_tokens, v.tokens)
  end)

  it("prints the same as a table", function()
    local v = lt.json.decode(eval "--json")
    local said = eval()
    local head = string.format("step 6: loss %.4f, perplexity %.4g, over 300 tokens", v.loss, v.perplexity)
    assert.matches(head, said, 1, true)
    local rows = 0
    for first, count, loss in said:gmatch "\n(%d+) ?%.?%.?%.? ?%d*%s+(%d+)%s+([%d%.]+)%s+[%d%.]+" do
      rows = rows + 1
      assert.equal(v.positions[rows].first, tonumber(first))
      assert.equal(v.positions[rows].count, tonumber(count))
      assert.equal(string.format("%.4f", v.positions[rows].loss), loss)
    end
    assert.equal(6, rows)
  end)

  it("agrees on other ranks, in one process and under mpirun", function()
    local one = lt.json.decode(eval "--json")
    local function agrees(said)
      local v = check(lt.json.decode(said:match "%b{}\n?$"))
      for i, p in ipairs(v.positions) do
        assert.equal(one.positions[i].count, p.count)
        assert.is_true(math.abs(one.positions[i].loss - p.loss) < 1e-5)
      end
    end
    agrees(eval "--json --ranks 3")
    agrees(eval "--json --ranks 2 --set layout.mesh.tp=2")
    local found = os.execute "command -v mpirun > /dev/null"
    if found == true or found == 0 and io.open((command.path:gsub("[^/]+$", "libltrain-mpi.so"))) then
      os.execute(string.format("timeout 60 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        .. "OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 "
        .. "mpirun -q --oversubscribe --bind-to none -np 2 '%s' --eval %s --run %s/a --json --set layout.mesh.sp=2 "
        .. "> %s/job 2>&1", command.path, file, folder, folder))
      agrees(command.read(folder .. "/job"))
    end
  end)

  it("reads other text, and changes nothing", function()
    local before = command.read(folder .. "/a/metrics.jsonl")
    local v = lt.json.decode((eval("--json --set data.hold_out=0 --set data.eval=recipe.lua"):match "{.*"))
    assert.is_true(v.loss > last.eval_loss)
    assert.equal(before, command.read(folder .. "/a/metrics.jsonl"))
  end)

  it("refuses what cannot be measured, once", function()
    local said = run("--eval " .. file .. " --run " .. folder .. "/nothing", 4)
    assert.matches("nothing", said)
    assert.is_nil(io.open(folder .. "/nothing"))
    said = run("--eval " .. file .. " --set data.hold_out=0 --run " .. folder .. "/a", 3)
    assert.matches("no held%-out text", said)
    assert.matches("data.eval", said, 1, true)
    said = run("--eval " .. file .. " --set model.width=32 --run " .. folder .. "/a", 4)
    assert.matches("another model", said)
    run("--eval " .. file .. " --steps 3", 2)
  end)
end)
