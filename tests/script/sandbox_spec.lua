-- sandbox_spec.lua: recipes that try to reach out, to run for ever, to fill the memory, to differ from rank to rank.
-- Each must end in time with an error that says what was wrong, and nothing touched.
local written = {}

local function write(name, text)
  local path = "sandbox_" .. name -- in the folder of the tests
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
  written[path] = true
  return path
end

local function remove_all() for path in pairs(written) do os.remove(path) end end

-- Read a recipe whose text is `body`; returns the error.
local function refuse(body, seconds)
  local path = write("r.lua", body)
  local ok, e = pcall(lt.recipe, path, {}, {}, seconds)
  assert(not ok, "the recipe was accepted")
  return e
end

-- The recipe's code runs to its end: what is left to complain about is that it returned nothing.
local function run(body) return refuse(body .. "\nreturn nil").what end

local function fails(body, pattern, line, seconds)
  local e = refuse(body, seconds)
  assert.matches(pattern, e.what)
  if line then assert.matches("r%.lua:" .. line .. "$", e.where) end
  return e
end

describe("a recipe cannot reach", function()
  teardown(remove_all)

  for _, name in ipairs { "io", "os", "debug", "package", "jit", "ffi", "dofile", "loadfile", "load", "loadstring",
    "newproxy", "collectgarbage", "next", "rawset", "rawget", "getfenv", "setfenv", "module", "_G" } do
    it(name, function() fails("local x = " .. name, "undefined name '" .. name .. "'", 1) end)
  end
  it("globals: neither reads nor writes them", function()
    fails("x = 1", "assignment to the undefined name 'x'", 1)
    local e = fails("\nlocal y = prnit", "undefined name 'prnit'", 2)
    assert.equal("did you mean 'print'?", e.hint)
  end)
  it("files beside those in its folder", function()
    for _, name in ipairs { "/etc/passwd", "../x", "..x", "a..b", "ltrain.core", "ltrain.walls", "ffi" } do
      refuse("require '" .. name .. "'")
    end
    write("part.lua", "return { answer = 42 }")
    assert.equal("the recipe must return a table", run "assert(require('sandbox_part').answer == 42)")
    assert.equal("the recipe must return a table", run "assert(require 'sandbox_part' == require 'sandbox_part')")
  end)
  it("bytecode", function()
    local path = write("r.lua", string.dump(function() return {} end))
    local ok, e = pcall(lt.recipe, path)
    assert.is_false(ok)
    assert.matches("attempt to load chunk with wrong mode", e.what)
  end)
  it("the libraries themselves", function()
    fails("string.rep = nil", "string is read%-only: rep was assigned to", 1)
    fails("lt.nn.decoder = nil", "lt.nn is read%-only")
    fails("getmetatable('').__index = {}", "attempt to index")
    fails("setmetatable(lt, {})", "cannot change a protected metatable")
    fails("return ('x'):dump()", "string has no 'dump'")
    fails("return string.dump(function() end)", "string has no 'dump'")
  end)
end)

describe("a recipe that does not end", function()
  teardown(remove_all)
  local loops = {
    ["a plain loop"] = "while true do end",
    ["a loop under pcall"] = "while true do pcall(function() while true do end end) end",
    ["a loop under xpcall"] = "while true do xpcall(function() while true do end end, function() end) end",
    ["a handler that loops"] = "xpcall(error, function() while true do end end)",
    ["a recursion of pcall"] = "local function f() pcall(f) pcall(f) end f()",
    ["coroutines"] = "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    ["a wrapped coroutine"] = "coroutine.wrap(function() while true do end end)()",
    ["a comparison that loops"] = "table.sort({ 3, 2, 1 }, function() while true do end end)",
    ["a metamethod"] = "local t = setmetatable({}, { __index = function() while true do end end }) return t.x",
  }
  for name, body in pairs(loops) do
    it("is ended: " .. name, function()
      local before = os.clock()
      fails(body, "the recipe took more than 0.2 s of processor time and was ended", nil, 0.2)
      assert.is_true(os.clock() - before < 2)
    end)
  end
end)

describe("a recipe that takes too much", function()
  teardown(remove_all)
  it("memory is stopped at its cap", function()
    fails("local t = {} for i = 1, 1e9 do t[i] = { i } end", "out of memory")
    fails("local s = 'x' while true do s = s .. s end", "out of memory")
    fails("local t = {} while true do t[#t + 1] = ('x'):rep(2^20 - #t) end", "out of memory")
  end)
  it("may make garbage for as long as it likes", function()
    assert.equal("the recipe must return a table", run "for i = 1, 3e6 do local t = { i, i } end")
  end)
  it("repetition is bounded", function()
    fails("local s = ('x'):rep(1e12)", "larger than 1 MiB", 1)
    fails("return string.rep('x', 3, ('y'):rep(2^19))", "larger than 1 MiB")
  end)
end)

describe("a recipe is the same on every rank:", function()
  teardown(remove_all)
  it("pairs goes by keys", function()
    assert.equal("the recipe must return a table", run [[
      local keys = {}
      for key in pairs { z = 1, a = 1, [3] = 1, [1] = 1, [2.5] = 1, [true] = 1, [false] = 1, B = 1 } do
        keys[#keys + 1] = tostring(key)
      end
      assert(table.concat(keys, " ") == "1 2.5 3 B a z false true", table.concat(keys, " "))]])
    fails("for _ in pairs { [{}] = 1 } do end", "a key of type table has no order")
  end)
  it("addresses are not told", function()
    assert.equal("the recipe must return a table", run [[
      assert(tostring {} == "table" and tostring(print) == "function")
      assert(string.format("%s %s", {}, print) == "table function")
      assert(("%s"):format(coroutine.create(print)) == "thread")]])
    fails("return string.format('%p', {})", "%%p is not for recipes")
  end)
  it("random numbers come from a seed and a stream", function()
    local e = fails("local x = math.random()", "math.random differs from rank to rank", 1)
    assert.matches("lt.random", e.hint)
    assert.equal("the recipe must return a table", run [[
      local a, b = lt.random(1, "s"), lt.random(1, "s")
      assert(a:uniform() == b:uniform() and a:normal() == b:normal())]])
  end)
end)
