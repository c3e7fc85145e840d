-- guides_spec.lua: what README.md, the guides, the recipes' heads and --help tell a reader to type is typed here.
-- Every command and every fenced block is found by its form, shortened and run; what cannot be run here is listed
-- below, with the reason, and nothing else is left out. What is listed and written nowhere is a fault too.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"
local root = os.getenv "LT_TEST_DATA" .. "/../"

-- Commands that are not run: words that begin them → why. The shell parses them; the file they name is there.
local not_run = {
  ["recipes/run"] = "installs and builds",
  ["tests/run"] = "runs this test",
  ["cmake -S . -B build/mine"] = "the build that made this program",
  ["cmake --install build/mine"] = "embed/install does it",
  ["cc -std=c11 embed.c"] = "embed/install does it",
  ["mpirun -np 16 --hostfile"] = "other machines",
  ["mpirun --mca odls_base_sigkill_timeout"] = "an option of a launch, with … for the rest",
  ["mpirun --hostfile hosts"] = "other machines",
  ["srun -N 4"] = "other machines, and Slurm",
  ["srun --mpi=pmix"] = "other machines, and Slurm",
  ["ltrain-lua --script /usr/bin/busted tests"] = "how this test is run",
  ["ltrain-lua --script tests/golden.lua FOLDER"] = "the test golden does it",
  ["ltrain-lua --script lua/reference.lua"] = "writes into the tree; lua/reference_spec compares",
  ["mpirun -np 2 BUILD/tests/bench"] = "measures",
}

-- Fenced blocks that are no commands and no recipes: how they begin → why they are not run.
local not_code = {
  ["recipe.lua ──build──▶"] = "a drawing",
  ["hop 1 of k, v ─┐"] = "a drawing",
  ["recipe.lua:5: model.head"] = "messages: compared below",
  ["/* embed.c"] = "embed/install compiles and runs it",
  ["// feed.cpp"] = "embed/install compiles and runs it",
}

local used = {}
local function listed(list, text)
  for start, why in pairs(list) do
    if text:sub(1, #start) == start then
      used[start] = true
      return why
    end
  end
end

local function lines_of(shell)
  local lines, pipe = {}, assert(io.popen(shell))
  for line in pipe:lines() do lines[#lines + 1] = line end
  pipe:close()
  return lines
end

local function is_command(text)
  local word, rest = text:match "^([%w_./-]+)(.*)$"
  if word == "recipes/run" or word == "tests/run" then return true end
  if word == "cmake" or word == "cc" or word == "srun" then return rest:sub(1, 2) == " -" end
  return (word == "ltrain-lua" or word == "mpirun" or word == "echo") and rest ~= ""
end

-- What is written to be typed: { text, where }, each once.
local commands, recipes, unknown = {}, {}, {}
local function add_command(text, where)
  text = text:gsub("%s+#.*$", ""):gsub("^%s+", ""):gsub("%s+$", "")
  if commands[text] then return end
  commands[text] = where
  commands[#commands + 1] = text
end

local function add_block(kind, text, where)
  if listed(not_code, text) then return end
  if kind == "lua" then
    recipes[#recipes + 1] = { text = text, where = where }
    return
  end
  for line in text:gmatch "[^\n]+" do
    if is_command((line:gsub("%s+#.*$", ""))) then add_command(line, where)
    else unknown[#unknown + 1] = where .. ": " .. line end
  end
end

local function read_page(path)
  local text, name = command.read(path), path:sub(#root + 1)
  local rest = text:gsub("\n%s*```(%w*)\n(.-)\n%s*```", function(kind, block)
    add_block(kind, block, name)
    return "\n"
  end)
  for span in rest:gmatch "`([^`]+)`" do
    span = span:gsub("%s+", " ")
    if is_command(span) then add_command(span, name) end
  end
end

local function read_recipe(path)
  local name = path:sub(#root + 1)
  for line in command.read(path):gmatch "[^\n]+" do
    for span in line:gmatch "`(ltrain%-lua [^`]+)`" do add_command(span, name) end
    local rest = line:match "^%-%- Try it: (.+)$"
    if rest then add_command(rest, name) end
  end
end

local function read_help()
  for _, line in ipairs(lines_of(command.path .. " --help")) do
    local name = line:match "^  (%-[%w-]+)"
    if line:find "^  ltrain%-lua " or line:find "^  mpirun " then add_command(line, "--help") end
    if name then
      local examples = false
      for _, page in ipairs(lines_of(command.path .. " --help " .. name .. " 2>&1")) do
        if page == "examples:" then examples = true
        elseif examples and page:find "^  %S" then add_command(page, "--help " .. name) end
      end
    end
  end
end

local pages = lines_of("find '" .. root .. "' -name '*.md' -not -path '*/build*' -not -path '*/.git/*' | sort")
for _, path in ipairs(pages) do read_page(path) end
for _, path in ipairs(lines_of("ls '" .. root .. "'recipes/*.lua")) do read_recipe(path) end
read_help()

-- The same command on little: two ranks, a narrow model, few tokens, two steps (one more where it goes on).
local function shorten(text)
  if not text:find "%.lua" then return text end
  text = text:gsub("RECIPE%.lua", "recipe.lua"):gsub("%-%-stage NAME", "--stage place")
  text = text:gsub("%-%-ranks 2,3,4", "--ranks 2,3")
  text = text:gsub("%-np %d+", "-q --oversubscribe --bind-to none -np 2")
  local narrow = text:find "small%.lua" or text:find " recipe%.lua"
  text = (text .. " "):gsub(" width=%d+ ", " "):gsub(" $", "")
  if narrow and not text:find "width=" then text = text .. " width=32" end
  if text:find "%-%-eval" then return text .. " --set train.eval_tokens=512" end
  for _, name in ipairs { "check", "stage", "explain", "verify", "script", "diff", "generate" } do
    if text:find("--" .. name, 1, true) then return text end
  end
  text = text:gsub("%-%-steps %d+", "")
  return text .. (text:find "%-%-resume" and " --steps 3" or " --steps 2") ..
    " --set train.tokens=512 --set train.eval_tokens=512"
end

-- The run that a command reads, where no command before has left it.
local function read_run(folder, text)
  if not (text:find "%-%-eval" or text:find "%-%-generate") then return end
  local run = text:match "%-%-run (%S+)" or "runs/" .. text:match "([%w_]+)%.lua" .. "-9"
  if #lines_of("ls " .. folder .. "/" .. run .. " 2> /dev/null") == 0 then return run end
end

describe("what a reader is told to type", function()
  local folder

  local function run(text)
    command.write(folder .. "/one.sh", text .. "\n")
    local status = os.execute("cd " .. folder .. " && PATH=$PWD/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 " ..
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0 " ..
      "ASAN_OPTIONS=detect_leaks=0 XDG_STATE_HOME=$PWD timeout 120 sh one.sh > one.log 2>&1 < /dev/null")
    return status == true or status == 0, command.read(folder .. "/one.log")
  end

  setup(function()
    folder = command.scratch()
    os.execute(string.format("cd %s && mkdir bin recipes text && ln -s '%s' bin/ltrain-lua && " ..
      "cp -r '%s'recipes/. recipes", folder, command.path, root))
    assert.is_true((run "ltrain-lua --script recipes/recall/make.lua recipes/recall/text.jsonl")) -- before it trains
    command.write_text(folder)
    command.write(folder .. "/recipe.lua", recipes[1].text)
  end)
  teardown(function() command.remove(folder) end)

  it("is found, in every page", function()
    assert.is_true(#pages >= 8)
    assert.is_true(#commands >= 25, #commands .. " commands")
    assert.is_true(#recipes >= 3)
    assert.matches("README.md", recipes[1].where, 1, true)
    assert.equal("", table.concat(unknown, "\n"), "neither run nor listed")
  end)

  it("as a recipe, trains", function()
    for i, recipe in ipairs(recipes) do
      local file = "page" .. i .. ".lua"
      command.write(folder .. "/" .. file, recipe.text)
      local ok, said = run("ltrain-lua " .. file .. " --steps 2 --run runs/page" .. i ..
        " --set train.tokens=512 --set train.eval_tokens=512")
      assert.is_true(ok, recipe.where .. ":\n" .. recipe.text .. "\n" .. said)
    end
    for _, path in ipairs(lines_of("cd " .. folder .. " && ls recipes/*.lua")) do
      local ok, said = run(shorten("ltrain-lua " .. path))
      assert.is_true(ok, path .. ": " .. said)
    end
  end)

  it("as a command, does what it says", function()
    local mpi, failed = command.has_mpi(), {}
    local function try(it, text)
      local ok, said = run(it)
      if it:find "%-%-diff" then ok = said:find "\nplan\n" or said:find "the same" end -- status 1: they differ
      if not ok then failed[#failed + 1] = commands[text] .. ": " .. text .. "\nas " .. it .. "\n" .. said end
    end
    for _, text in ipairs(commands) do
      if listed(not_run, text) then
        command.write(folder .. "/one.sh", text .. "\n")
        assert.equal(0, #lines_of("sh -n " .. folder .. "/one.sh 2>&1"), text)
        local file = text:match "^[%w/]+/run$" or text:match " (tests/[%w/]+%.lua)"
        if file then command.read(root .. file) end
      elseif mpi or not text:find "^mpirun" then
        local left = read_run(folder, text)
        if left then try(shorten("ltrain-lua " .. text:match "%S+%.lua" .. " --run " .. left), text) end
        -- On so many ranks as are written, too: what is compiled needs none.
        local ranks, rest = text:match "^mpirun %-np (%d+) ltrain%-lua (.+)$"
        if ranks then try("ltrain-lua --check --ranks " .. ranks .. " " .. rest, text) end
        try(shorten(text), text)
        if left then os.execute("rm -rf " .. folder .. "/" .. left) end
      end
    end
    assert.equal("", table.concat(failed, "\n"))
  end)

  it("is all that the lists here leave out", function()
    for _, list in ipairs { not_run, not_code } do
      for start in pairs(list) do assert.is_true(used[start], "listed, and written nowhere: " .. start) end
    end
  end)

  it("leaves what README.md says", function()
    local readme = command.read(root .. "README.md")
    local section = readme:match "\n## What a run leaves\n(.-)\n## "
    local dir = folder .. "/runs/a"
    local fields = section:match "one object a\nstep: (.-)—" or section:match "one object a step: (.-)—"
    local _, records = command.metrics(dir)
    local n = 0
    for name in fields:gsub("%b()", ""):gmatch "`([%w_]+)`" do
      n = n + 1
      local sometimes = (" comm controls eval_loss "):find(" " .. name .. " ", 1, true)
      assert.is_true(sometimes ~= nil or records[1][name] ~= nil, name)
    end
    assert.is_true(n >= 7)
    for _, file in ipairs { "recipe.lua", "metrics.jsonl", "events.out.tfevents.*", "saves/step-2/state.json" } do
      assert.equal(1, #lines_of("ls -d " .. dir .. "/" .. file .. " 2> /dev/null"), file)
    end
  end)

  it("shows messages that are those of the recipe with these mistakes", function()
    local block = command.read(root .. "README.md"):match "\n```\n(recipe%.lua:5: .-)\n```"
    local faulty = recipes[1].text:gsub(" heads = ", " head = "):gsub("steps = %d+", 'steps = "many"')
    command.write(folder .. "/recipe.lua", faulty)
    local ok, said = run "ltrain-lua --check recipe.lua"
    assert.is_false(ok)
    assert.matches(block, said, 1, true)
    command.write(folder .. "/recipe.lua", recipes[1].text)
  end)
end)

describe("the pages", function()
  it("link to files that are there", function()
    local n = 0
    for _, path in ipairs(pages) do
      local base = path:match "^(.*/)"
      for target in command.read(path):gmatch "%]%(([^)#]+)[^)]*%)" do
        if not target:find "^https?:" then
          local found = io.open(base .. target)
          assert.is_not_nil(found, path .. " links to " .. target)
          found:close()
          n = n + 1
        end
      end
    end
    assert.is_true(n >= 15)
  end)

  it("are all reached from README.md", function()
    local reached, todo = {}, { root .. "README.md" }
    while #todo > 0 do
      local path = table.remove(todo)
      local real = lines_of("readlink -f '" .. path .. "'")[1]
      if not reached[real] then
        reached[real] = true
        for target in command.read(path):gmatch "%]%(([^)#]+%.md)[^)]*%)" do
          todo[#todo + 1] = path:match "^(.*/)" .. target
        end
      end
    end
    for _, path in ipairs(pages) do
      assert.is_true(reached[lines_of("readlink -f '" .. path .. "'")[1]], path .. " is linked from nowhere")
    end
  end)
end)
