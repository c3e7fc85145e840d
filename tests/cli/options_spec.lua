-- options_spec.lua: the command line: help, what is refused and with which hint, -e, --script and -i from a pipe.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

describe("ltrain-lua", function()
  local folder
  setup(function()
    folder = command.scratch()
    os.execute("mkdir " .. folder .. "/text")
  end)
  teardown(function() command.remove(folder) end)

  local function run(arguments, status)
    local got, said = command.run(folder, arguments)
    assert.equal(status or 0, got, said)
    return said
  end

  it("tells of every command, and of each on its own page", function()
    local all = run "--help"
    assert.matches("exit status:", all, 1, true)
    local commands = all:match "commands:\n(.-)\n\n"
    local n = 0
    for name in commands:gmatch "\n?  (%-[%w%-]+)" do
      n = n + 1
      if name ~= "--help" and name ~= "--version" then
        local page = run("--help " .. name)
        assert.matches("usage: ltrain-lua " .. name, page, 1, true)
        assert.matches("examples:\n  ", page, 1, true)
        assert.equal(page, run("--help=" .. name:gsub("^%-+", "")))
      end
    end
    assert.is_true(n >= 8)
    assert.equal(run "--help stage", run "--stage --help")
    assert.equal(run "--help check", run "--check --help")
    for _, topic in ipairs { "--steps", "steps", "version" } do
      local line = run("--help " .. topic):match "^[^\n]+\n"
      assert.matches(topic:gsub("^%-*", "  --"), line, 1, true)
      assert.matches(line, all, 1, true)
    end
    assert.matches("\n +with train, %-%-sweep\n$", run "--help steps")
    for option in all:match("\noptions:\n(.-)\n\n"):gmatch "\n?  (%-%-[%w%-]+)" do
      assert.not_matches("no option", (select(2, command.run(folder, option))))
    end
  end)

  it("prints no line wider than a screen in its help", function()
    for _, topic in ipairs { "", "train", "check", "stage", "verify-layout", "script", "-i", "-e" } do
      for line in run("--help " .. topic):gmatch "[^\n]+" do assert.is_true(#line <= 110, line) end
    end
  end)

  it("says what it is", function()
    local said = run "--version"
    assert.matches("^ltrain " .. lt.version:gsub("%.", "%%.") .. "\n", said)
    assert.is_true((said:find "\nbuild     %l+, gcc %d+%." or said:find "\nbuild     %l+, .*Clang %d+%.") ~= nil, said)
    for _, word in ipairs { "build  ", "kernels ", "LuaJIT 2", "OpenBLAS" } do assert.matches(word, said, 1, true) end
  end)

  describe("refuses", function()
    local function refuse(arguments, what, hint)
      local said = run(arguments, 2)
      assert.matches(what, said, 1, true)
      if hint then assert.matches("hint: " .. hint, said, 1, true) end
    end
    it("options there are not", function()
      refuse("--chekc a.lua", "there is no option --chekc", "did you mean --check?")
      refuse("--runs=x a.lua", "there is no option --runs", "did you mean --run?")
      refuse("--width 64 a.lua", "there is no option --width",
        "arguments of a recipe are name=value, its keys --set KEY=VALUE")
      refuse("--stage plaec a.lua", "there is no stage plaec\n  expected build, differentiate, place, exchange, "
        .. "checkpoint, lower, order, memory, transfers, verify\n", "did you mean place?")
      refuse("--stage a.lua", "there is no stage a.lua\n")
      refuse("--help chek", "there is no help on chek", "did you mean check?")
    end)
    it("options without their value, or with one too many", function()
      refuse("a.lua --steps", "--steps needs a value")
      refuse("--resume=yes a.lua", "--resume takes no value")
      refuse("--steps=ten a.lua", "--steps takes an integer")
      refuse("--set a a.lua", "--set takes KEY=VALUE")
    end)
    it("what means nothing together", function()
      refuse("--check --resume a.lua", "--resume means nothing with --check")
      refuse("--stage place --check a.lua", "one command at a time: --stage and --check")
      refuse("--ranks 2,3 a.lua", "several numbers of ranks are for --verify-layout")
      refuse("-i a.lua", "-i takes no words: a.lua")
      refuse("--version a.lua", "--version takes no words: a.lua")
      refuse("--version --steps 3", "--steps means nothing with --version")
    end)
    it("words it has no use for", function()
      refuse("a.lua b.lua", "one recipe at a time: a.lua and b.lua", "arguments of a recipe are name=value")
      refuse("", "no recipe given")
      refuse("help", "there is no recipe help", "did you mean --help?")
      refuse("check a.lua", "one recipe at a time: check and a.lua", "did you mean --check?")
      refuse("train a.lua", "one recipe at a time: train and a.lua", "ltrain-lua RECIPE.lua trains")
      refuse("a.lua width = 64", "one recipe at a time: a.lua, width and 64",
        "arguments of a recipe are name=value, without")
      assert.equal(folder .. "/text: a folder is no recipe\n", run(folder .. "/text", 3))
      refuse("-- --check", "--check", nil) -- a recipe of that name
    end)
  end)

  describe("-e", function()
    it("prints what it returns, and has its arguments", function()
      assert.equal("2\tnil\n", run [[-e '1 + 1, nil']])
      assert.equal("a b\t2\tc\n", run [[-e 'arg[1], #arg, arg[2]' 'a b' c]])
      assert.equal("a\n", run [[-e 'print(...)' a]])
    end)
    it("fails with its line", function()
      assert.matches("(command line):1: no", run([[-e 'error "no"']], 1), 1, true)
      assert.equal("", run([[-e 'os.exit(9)']], 9))
    end)
  end)

  describe("--script", function()
    it("hands back what the file returns, and tells of errors with their stack", function()
      command.write(folder .. "/s.lua", "local function f() error 'deep' end\nif arg[1] then f() end\nreturn 3\n")
      assert.equal("", run("--script " .. folder .. "/s.lua", 3))
      command.write(folder .. "/recipe.lua", "local k = lt.arg('k', 2, 'experts')")
      assert.matches("recipe.lua:1: lt.arg is for recipes", run("--script " .. folder .. "/recipe.lua", 1), 1, true)
      local said = run("--script " .. folder .. "/s.lua x", 1)
      assert.matches("s.lua:1: deep", said, 1, true)
      assert.matches("stack traceback:.*s%.lua:1: in function 'f'.*s%.lua:2: in main chunk", said)
      command.write(folder .. "/wrong.lua", "local x = = 1\n")
      assert.matches("wrong.lua:1: unexpected symbol near '='", run("--script " .. folder .. "/wrong.lua", 1), 1, true)
      assert.equal(folder .. "/nothing.lua: the script cannot be read: No such file or directory\n",
        run("--script " .. folder .. "/nothing.lua", 4))
    end)
  end)

  describe("-i from a pipe", function()
    local function feed(text, status, launcher)
      command.write(folder .. "/in", text)
      local got = os.execute(string.format("cd %s && %s '%s' -i < in > out 2> err; echo $? > code", folder,
        launcher or "", command.path))
      assert.equal(0, got)
      assert.equal(status or 0, tonumber(command.read(folder .. "/code")), command.read(folder .. "/err"))
      return command.read(folder .. "/out"), command.read(folder .. "/err")
    end
    it("prints values alone", function()
      assert.equal("2\nnil  1\n", (feed "local x = 1\nx + 1\nfor i = 1, 2 do\n  x = x + 1\nend\nnil, x - 2\n"))
    end)
    it("goes on after a fault, and its status tells of it", function()
      local out, err = feed("error 'one'\nlocal function f()\n  error 'two'\nend\nlocal _ = f()\n'three'\n", 1)
      assert.equal("three\n", out)
      assert.matches("prompt:1: one\nprompt:2: two\nstack traceback:", err, 1, true)
      assert.matches("prompt:2: in function 'f'\n\tprompt:1: in", err, 1, true)
      assert.not_matches("console.lua", err, 1, true)
    end)
    it("ends with an incomplete piece", function()
      local _, err = feed("1 +\n", 1)
      assert.matches("near '<eof>'", err, 1, true)
    end)
    it("shows nested tables to a bound, and what holds itself", function()
      local out = feed "local t = { 1, 2, { 3 }, s = 'a\\nb', [true] = 1, [{}] = 2 } t[{}] = nil t.me = t\nt\n"
      assert.matches('{ 1, 2, { 3 }, me = { … the table above … }, s = "a\\nb", [true] = 1, [table',
        (out:gsub("%s+", " ")), 1, true)
      out = feed "local big = {} for i = 1, 1000 do big[i] = i end\nbig\n"
      assert.matches("… 960 more", out, 1, true)
      assert.is_true(#out < 400)
    end)
    if os.execute "command -v mpirun > /dev/null 2>&1" == 0 and lt.comm then
      it("runs on all ranks what the first one reads", function()
        local launcher = "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 "
          .. "timeout 60 mpirun -np 2 --oversubscribe"
        local out, err = feed("local c = lt.comm.world()\nc:all_reduce(lt.tensor { c.rank + 1 })\n"
          .. "if c.rank == 1 then error 'mine' end\n'after'\n", 1, launcher)
        assert.equal("f32[1] [3]\nafter\n", out)
        assert.matches("rank 1: prompt:1: mine", err, 1, true)
      end)
    end
  end)
end)
