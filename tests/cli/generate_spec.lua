-- generate_spec.lua: ltrain-lua --generate: a small model goes on with what it has learnt; equal seeds, equal texts.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local PATTERN = "the quick brown fox; "

local recipe = [[
return {
  seed = 5,
  data = { train = "text.txt", length = 64 },
  model = lt.nn.decoder { width = 32, layers = 1, heads = 2, attention = { window = 24 } },
  optim = lt.optim.adamw { lr = 1e-2, clip = 1 },
  train = { tokens = 256, steps = 100 },
}
]]

describe("ltrain-lua --generate", function()
  local folder, file

  local function run(arguments, status)
    local got, said = command.run(folder, arguments)
    assert.equal(status or 0, got, said)
    return said
  end
  local function generate(more, status)
    return run(string.format("--generate %s --run %s/a %s", file, folder, more or ""), status)
  end

  setup(function()
    folder = command.scratch()
    file = folder .. "/recipe.lua"
    command.write(file, recipe)
    command.write(folder .. "/text.txt", PATTERN:rep(500))
    run(file .. " --run " .. folder .. "/a")
  end)
  teardown(function() command.remove(folder) end)

  it("goes on with a pattern that was learnt, longer than any text it has seen", function()
    local said = generate "--prompt 'the quick brown fox; the ' --temperature 0 --tokens 300"
    assert.equal(PATTERN:rep(20):sub(26, 325), said)
  end)

  it("draws the same text for the same seed, on any number of threads", function()
    local text = generate "--prompt 'the ' --temperature 4 --seed 3 --tokens 200"
    assert.equal(200, #text)
    for _, threads in ipairs { 1, 3 } do
      local script = string.format("OMP_NUM_THREADS=%d '%s' --generate %s --run %s/a --prompt 'the ' " ..
        "--temperature 4 --seed 3 --tokens 200 > %s/text", threads, command.path, file, folder, folder)
      os.execute(script)
      assert.equal(text, command.read(folder .. "/text"))
    end
    assert.not_equal(text, generate "--prompt 'the ' --temperature 4 --seed 4 --tokens 200")
    assert.not_equal(text, generate "--prompt 'a' --temperature 4 --seed 3 --tokens 200")
    assert.equal(generate "--prompt 'the ' --temperature 0 --tokens 50",
      generate "--prompt 'the ' --temperature 4 --top-k 1 --tokens 50 --seed 9")
  end)

  it("takes its prompt from the standard input, any bytes, or none", function()
    command.write(folder .. "/prompt", "\0\255" .. PATTERN:rep(9) .. "the q")
    assert.equal("uick brown", generate("--prompt - --temperature 0 --tokens 10 < " .. folder .. "/prompt"))
    assert.equal(256, #generate "")
    assert.matches("the prompt is empty", generate("--prompt - < /dev/null", 2))
    assert.matches("the prompt is empty", generate("--prompt ''", 2))
  end)

  it("ends quietly when nobody reads on, and loudly when it cannot write", function()
    command.write(folder .. "/pipe.sh", string.format("'%s' --generate %s --run %s/a --tokens 100000 2> %s/said " ..
      "| head -c 10 | wc -c", command.path, file, folder, folder))
    local pipe = io.popen("timeout 60 sh " .. folder .. "/pipe.sh")
    assert.equal(10, tonumber(pipe:read "*a"))
    pipe:close()
    assert.equal("", command.read(folder .. "/said"))
    assert.matches("the standard output", generate("--tokens 30 > /dev/full", 4))
  end)

  it("refuses what it cannot do, in a line that says why", function()
    assert.matches("nothing", run("--generate " .. file .. " --run " .. folder .. "/nothing", 4))
    assert.matches("another model", generate("--set model.width=64", 4))
    assert.matches("memory", generate("--set checkpoint.budget=1000", 3))
    local hot = generate("--temperature hot", 2)
    assert.matches("--temperature takes a number\n  expected 0 ... 1000, got hot", hot, 1, true)
    assert.matches("%-%-tokens takes an integer", generate("--tokens 0", 2))
    assert.matches("%-%-slots takes an integer", generate("--slots 0", 2))
    assert.matches("%-%-ranks means nothing with %-%-generate", generate("--ranks 2", 2))
    run("--eval " .. file .. " --prompt a", 2)
    command.write(folder .. "/own.lua", recipe:gsub("lt%.nn%.decoder %b{}", "function(ctx) return nil end"))
    local said = run("--generate " .. folder .. "/own.lua --run " .. folder .. "/a", 3)
    assert.matches("own.lua:4: model: a model that is a function cannot generate text", said, 1, true)
  end)

  it("is written by one rank of a job", function()
    if not command.has_mpi() then return end
    local text = generate "--prompt 'the ' --temperature 1 --tokens 50"
    local status, said = command.job(folder, 2,
      string.format("--generate %s --run %s/a --prompt 'the ' --temperature 1 --tokens 50", file, folder))
    assert.equal(0, status, said)
    assert.equal(text, said)
  end)
end)
