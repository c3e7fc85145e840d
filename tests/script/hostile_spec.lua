-- hostile_spec.lua: recipes that mean harm, one entry each: what is tried, the code, what must be said, on which line.
-- Every one must end within its limit and a second, with its line, leave no file behind and the process as it was: the
-- next recipe in it works. Limits are short here; what they are in a run is in host/script/recipe.c.
local LIMIT = 0.05 -- seconds of processor time

local path = "hostile_recipe.lua" -- in the folder of the tests
local good = [[return { data = { train = "*.txt", length = 8 }, train = { tokens = 8, steps = 99 },
model = lt.nn.decoder { width = 8, layers = 1, heads = 1 }, optim = lt.optim.adamw { lr = %s } }
]]

local function write(text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

local function touched()
  local f = io.open "hostile_mark" -- what those below would make
  if f then f:close() end
  return f ~= nil
end

local function read(text, memory)
  write(text)
  return lt.recipe(path, {}, {}, memory and 5 or LIMIT, memory)
end

-- A recipe of today's making still works after what was done before it.
local function works()
  write(good:format "1e-3")
  local r = lt.recipe(path)
  assert.matches("label_loss", r:graph())
  r:close()
end

-- Run fn, which must raise within `limit` seconds and one, naming `line`.
local function refused(fn, limit, what, line)
  local start = os.clock()
  local ok, e = pcall(fn)
  local took = os.clock() - start
  assert(not ok, "it was accepted")
  assert(took < limit + 1, ("it took %.2f s"):format(took))
  assert.matches(what, e.what)
  if line then assert.matches("hostile_recipe%.lua:" .. line .. "$", e.where) end
  assert.is_false(touched())
  works()
end

local late = "the recipe took more than 0.05 s of processor time and was ended"
local function loops(name, code, line) return { name, code, late, line or 1 } end
local function absent(name, code) return { name, code, "undefined name", 1 } end

-- { what is tried, code, what must be said, the line }
local reaching_out = {
  absent("a file", "io.open('hostile_mark', 'w'):write('x')"),
  absent("a shell", "os.execute('touch hostile_mark')"),
  absent("a pipe", "io.popen('touch hostile_mark')"),
  absent("removing a file", "os.remove('hostile_recipe.lua')"),
  absent("the environment of the process", "local _ = os.getenv 'HOME'"),
  absent("FFI by its name", "ffi.cdef 'int system(const char *)'"),
  { "FFI by require", "\nlocal ffi = require 'ffi'", "there is no file", 2 },
  absent("jit", "jit.on()"),
  absent("debug", "debug.getregistry().x = 1"),
  { "debug by require", "require 'debug'", "there is no file", 1 },
  absent("package", "package.loadlib('libc.so.6', 'system')"),
  absent("load", "load('return 1')()"),
  absent("loadstring", "loadstring('return 1')()"),
  absent("dofile", "dofile '/etc/passwd'"),
  absent("loadfile", "loadfile '/etc/passwd'"),
  absent("_G", "_G.print = nil"),
  absent("getfenv", "getfenv(print)"),
  absent("setfenv", "setfenv(1, {})"),
  absent("next", "next(string)"),
  absent("rawset", "rawset(string, 'rep', 1)"),
  absent("rawget", "rawget(lt, 'x')"),
  absent("newproxy", "newproxy(true)"),
  absent("collectgarbage", "collectgarbage 'stop'"),
  absent("gcinfo", "gcinfo()"),
  absent("module", "module 'x'"),
  absent("lt.tensor by its name", "tensor(1)"),
  { "tensors", "lt.tensor({ 2^40 })", "lt has no 'tensor'", 1 },
  { "communicators", "lt.comm.world()", "lt has no 'comm'", 1 },
  { "the library's inside", "require 'ltrain.core'", "lt has no 'core'", 1 },
  { "the walls", "require 'ltrain.walls'", "lt has no 'walls'", 1 },
  { "a path", "require '../x'", "only ltrain modules and files beside the recipe", 1 },
  { "an absolute path", "require '/etc/passwd'", "only ltrain modules and files beside the recipe", 1 },
  { "a name with a zero", "require 'a\\0b'", "require 'a", 1 },
  { "string.dump", "string.dump(function() end)", "string has no 'dump'", 1 },
  { "the strings' metatable", "getmetatable('').__index = {}", "attempt to index", 1 },
  { "replacing the strings' metatable", "setmetatable('', {})", "bad argument #1", 1 },
  { "a library's metatable", "setmetatable(string, {})", "protected metatable", 1 },
  { "the environment's metatable", "local m = getmetatable(lt) m.__index = nil", "attempt to index", 1 },
  { "writing into a library", "math.floor = print", "math is read%-only", 1 },
  { "writing deep into a library", "lt.nn.decoder = print", "lt.nn is read%-only", 1 },
  { "a global", "x = 1", "assignment to the undefined name 'x'", 1 },
  { "the walls through a method", "('x'):dump()", "string has no 'dump'", 1 },
  { "an error's metatable", "local _, e = pcall(lt.arg) getmetatable(e).__index = print", "attempt to index", 1 },
  { "a random stream's inside", "lt.random(1).key = 1", "attempt to index", 1 },
  { "bytecode as a recipe", string.dump(function() return {} end), "wrong mode" },
}

local endless = {
  loops("a plain loop", "while true do end"),
  loops("a loop on line 3", "local x = 0\n\nwhile true do x = x + 1 end", 3),
  loops("goto", "::again:: goto again"),
  loops("repeat", "repeat until false"),
  loops("for", "for i = 1, math.huge do end"),
  loops("tail calls", "local function f() return f() end f()"),
  loops("a loop under pcall", "while true do pcall(function() while true do end end) end"),
  loops("pcall of pcall", "local function f() return pcall(pcall, f) end while true do f() end"),
  loops("a recursion of pcall", "local function f() pcall(f) pcall(f) end f()"),
  loops("xpcall", "while true do xpcall(function() while true do end end, function() end) end"),
  loops("a handler that loops", "xpcall(error, function() while true do end end)"),
  loops("a handler that errs and loops", "while true do xpcall(error, function() error('again') end) end"),
  loops("a handler of handlers",
    "local function h(e) return xpcall(error, h) end while true do xpcall(error, h) end"),
  loops("coroutines", "while true do coroutine.resume(coroutine.create(function() while true do end end)) end"),
  loops("a wrapped coroutine", "coroutine.wrap(function() while true do end end)()"),
  loops("a coroutine that yields for ever",
    "local f = coroutine.wrap(function() while true do coroutine.yield() end end) while true do f() end"),
  loops("pcall inside a coroutine inside pcall",
    "pcall(coroutine.wrap(function() while true do pcall(function() while true do end end) end end)) while true "
      .. "do end"),
  loops("coroutines in coroutines", "while true do local function f() coroutine.wrap(f)() end pcall(f) end"),
  loops("a comparison that loops", "table.sort({ 3, 2, 1 }, function() while true do end end)"),
  loops("a sort that is slow", "local t = {} for i = 1, 1e5 do t[i] = i % 7 end while true do table.sort(t) end"),
  loops("a sort by a library function",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, rawequal) end"),
  loops("gsub's function", "('x'):gsub('x', function() while true do end end)"),
  loops("gmatch", "while true do for w in ('a b c'):gmatch '%a' do end end"),
  loops("__index", "local t = setmetatable({}, { __index = function() while true do end end }) local _ = t.x"),
  loops("__newindex", "local t = setmetatable({}, { __newindex = function() while true do end end }) t.x = 1"),
  loops("__call", "setmetatable({}, { __call = function() while true do end end })()"),
  loops("__add", "local _ = setmetatable({}, { __add = function() while true do end end }) + 1"),
  loops("__unm", "local _ = -setmetatable({}, { __unm = function() while true do end end })"),
  loops("__eq",
    "local m = { __eq = function() while true do end end } local _ = setmetatable({}, m) == setmetatable({}, m)"),
  loops("__lt",
    "local m = { __lt = function() while true do end end } local _ = setmetatable({}, m) < setmetatable({}, m)"),
  loops("__le",
    "local m = { __le = function() while true do end end } local _ = setmetatable({}, m) <= setmetatable({}, m)"),
  loops("__concat", "local _ = 'x' .. setmetatable({}, { __concat = function() while true do end end })"),
  loops("__tostring, told", "print(setmetatable({}, { __tostring = function() while true do end end }))"),
  loops("__tostring in format", "('%s'):format(setmetatable({}, { __tostring = function() while true do end end }))"),
  loops("__tostring of an error", "error(setmetatable({}, { __tostring = function() while true do end end }))"),
  loops("__index of what is returned",
    "do return setmetatable({}, { __index = function() while true do end end }) end", false),
  loops("__index of options",
    "local _ = { model = lt.nn.decoder(setmetatable({}, { __index = function() while true do end end })) } "
      .. "while true do end"),
  loops("memory that is made and dropped", "while true do local s = ('x'):rep(2^20) .. 'y' end"),
  loops("long strings compared",
    "local s = ('x'):rep(2^20) for i = 1, 4 do s = s .. s end local a, b = s .. 'a', s .. 'b' while true do "
      .. "local _ = a < b end"),
  loops("long strings made lower",
    "local s = ('X'):rep(2^20) for i = 1, 4 do s = s .. s end while true do s:lower() end"),
  loops("a number in a long string",
    "local s = (' '):rep(2^20) for i = 1, 4 do s = s .. s end s = s .. '1' while true do local _ = s + 1 end"),
  loops("tonumber of a long string",
    "local s = (' '):rep(2^20) for i = 1, 4 do s = s .. s end while true do tonumber(s, 10) end"),
  loops("one long line", "local a, b = 1, 2 " .. ("a, b = b, a "):rep(2000):rep(1) .. "while true do a, b = b, a end"),
  loops("long strings compared, straight on", "local s = ('x'):rep(2^20) for i = 1, 4 do s = s .. s end "
    .. "local a, b, c = s .. 'a', s .. 'b' " .. ("c = a < b "):rep(5000) .. "while true do end"),
  loops("table.insert at the front", "local t = {} for i = 1, 1e9 do table.insert(t, 1, i) end"),
  loops("table.remove at the front",
    "local t = {} for i = 1, 3e4 do t[i] = i end while true do table.insert(t, table.remove(t, 1)) end"),
  loops("table.concat of much", "local t = {} for i = 1, 2e4 do t[i] = '' end while true do table.concat(t) end"),
  loops("pairs of much", "local t = {} for i = 1, 1e3 do t[i] = i end while true do for k in pairs(t) do end end"),
  loops("errors", "while true do pcall(error, {}) end"),
  loops("library errors", "while true do pcall(lt.arg) end"),
  loops("format", "while true do string.format('%99.99f', 1e300) end"),
  loops("lt.random", "local r = lt.random(1) while true do r:normal() end"),
  loops("many layers", "local function f(n) if n == 0 then return 1 end return f(n - 1) + f(n - 1) end f(60)"),
  loops("a table whose length is far out",
    "local t = {} for i = 0, 30 do t[2^i] = 1 end table.insert(t, 1, 0) while true do end"),
  loops("the stack, over and over", "local function f() return 1 + f() end while true do pcall(f) end"),
}

local patterns = {
  { "stars", "string.find(('a'):rep(1000), ('a*'):rep(30) .. 'b')", "more than 1000000 steps", 1 },
  { "dashes", "string.match(('a'):rep(1000), ('a-'):rep(30) .. 'b')", "more than 1000000 steps", 1 },
  { "through the strings' methods", "(('a'):rep(1000)):gsub(('a*'):rep(30) .. 'b', '')", "more than 1000000 steps", 1 },
  { "gmatch", "\nfor _ in ('a'):rep(1000):gmatch(('a*'):rep(30) .. 'b') do end", "more than 1000000 steps", 2 },
  { "balance", "string.find(('('):rep(1e5), '.-%b()')", "more than 1000000 steps", 1 },
  { "depth", "string.find(('a'):rep(300), ('a?'):rep(300))", "more than 200 items wait", 1 },
  { "captures", "string.find('x', ('()'):rep(33))", "more than 32 captures", 1 },
  { "a plain text in its like",
    "string.find(('a'):rep(2^20), ('a'):rep(2^19) .. 'b', 1, true)", "more than 1000000 steps", 1 },
  loops("again and again", "while true do pcall(string.find, ('a'):rep(1000), ('a*'):rep(30) .. 'b') end"),
}

local bombs = {
  { "a table", "local t = {} for i = 1, 1e9 do t[i] = i end", "out of memory" },
  { "tables", "local t = {} while true do t = { t } end", "out of memory" },
  { "a string", "local s = 'x' while true do s = s .. s end", "out of memory" },
  { "strings", "local t = {} while true do t[#t + 1] = ('x'):rep(2^20 - #t) end", "out of memory" },
  { "rep", "local s = ('x'):rep(1e12)", "larger than 1 MiB", 1 },
  { "rep of a number in a string", "local s = ('x'):rep('1e12')", "larger than 1 MiB", 1 },
  { "rep of nothing", "local s = (''):rep(1e300) error('done')", "done", 1 },
  { "rep with a separator", "string.rep('', 2^21, 'y')", "larger than 1 MiB", 1 },
  { "rep without end", "string.rep('x', math.huge)", "larger than 1 MiB", 1 },
  { "gsub", "(('a'):rep(1e5)):gsub('a', ('x'):rep(1e5))", "out of memory" },
  { "concat", "local s, t = ('x'):rep(2^20), {} for i = 1, 1000 do t[i] = s end table.concat(t)", "out of memory" },
  { "format", "string.format('%999999999d', 1)", "invalid option", 1 },
  { "a precision", "string.format('%.999999999f', 1)", "invalid option", 1 },
  { "unpack", "unpack({}, 1, 1e8)", "too many results", 1 },
  { "unpack below", "unpack({}, -2^31, 2^31 - 1)", "too many results", 1 },
  { "byte", "(('x'):rep(2^20)):byte(1, -1)", ".", 1 },
  { "insert far out", "table.insert({}, 2^31, 1)", "there is no position 2147483648 in a table of 0", 1 },
  { "insert far below", "table.insert({}, -2^31, 1)", "there is no position", 1 },
  { "insert at no number", "table.insert({}, 0/0, 1)", "there is no position", 1 },
  { "concat far out", "table.concat({}, ',', 1, 2^31 - 1)", "invalid value %(nil%) at index 1", 1 },
  { "a sort without order",
    "local t = {} for i = 1, 100 do t[i] = i end table.sort(t, function() return true end)",
    "invalid order function", 1 },
  { "the Lua stack", "local function f() return 1 + f() end f()", "stack overflow" },
  { "the C stack by gsub", "local function f() return (('x'):gsub('x', f)) end f()", "nested too deep", 1 },
  { "the C stack by sort", "local function f() table.sort({ 2, 1 }, f) end f()", "stack overflow" },
  { "the C stack by coroutines", "local function f() return coroutine.wrap(f)() end f()", "nested too deep", 1 },
  { "the C stack by resume",
    "local function f() local ok, e = coroutine.resume(coroutine.create(f)) if not ok then error(e, 0) end end "
      .. "f()", "nested too deep", 1 },
  { "the C stack by both",
    "local function f() coroutine.wrap(function() ('x'):gsub('x', f) end)() end f()", "nested too deep", 1 },
  { "the C stack by __tostring",
    "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return tostring(t) end "
      .. "tostring(t)", "stack overflow" },
  { "the C stack by library errors",
    "local m = {} m.__tostring = function() lt.arg(setmetatable({}, m)) end lt.arg(setmetatable({}, m))",
    "stack overflow" },
  { "a chain of __index", "local t = {} setmetatable(t, { __index = t }) local _ = t.x", "loop in gettable", 1 },
  { "a chain of __newindex", "local t = {} setmetatable(t, { __newindex = t }) t.x = 1", "loop in settable", 1 },
  { "__call of itself", "local t = {} setmetatable(t, { __call = t }) t()", "attempt to call", 1 },
  { "parentheses", "return " .. ("("):rep(1e4) .. "1" .. (")"):rep(1e4), "too many syntax levels", 1 },
  { "tables in tables, written", "return " .. ("{"):rep(1e4) .. ("}"):rep(1e4), "too many syntax levels", 1 },
  { "concatenations", "return " .. ("'x'.."):rep(1e4) .. "'x'", "too many syntax levels", 1 },
  { "locals", ("local a "):rep(300), "more than 200 local variables", 1 },
  { "a recipe of 5 MB", "--" .. ("x"):rep(5 * 2 ^ 20), "larger than a recipe may be" },
  { "an error in telling an error", "error(setmetatable({}, { __tostring = function() error('x') end }))", "." },
  { "an error that is a table", "error {}", "an error value of type table" },
  { "an error that is nothing", "error()", "." },
  { "an error of a megabyte", "error(('x'):rep(2^20))", "x" },
}

local different = {
  { "addresses of tables", "error(tostring {})", "^table$", 1 },
  { "addresses of functions", "error(tostring(print))", "^function$" },
  { "addresses of threads", "error(tostring(coroutine.create(print)))", "^thread$" },
  { "addresses of library functions", "error(tostring(lt.nn.decoder))", "^function$" },
  { "addresses of userdata", "error(tostring(lt.random(1)))", "^userdata$" },
  { "addresses by format", "error(('%s %s'):format({}, print))", "^table function$" },
  { "addresses by %p", "string.format('%p', {})", "%%p is not for recipes", 1 },
  { "addresses by %p with a width", "string.format('%-20p', {})", "%%p is not for recipes", 1 },
  { "no addresses by %%p", "error(('%%p%s'):format(1))", "^%%p1$" },
  { "addresses in an error", "error({})", "^an error value of type table$" },
  { "addresses in a call of nothing", "local t = {} t.x.y = 1", "attempt to index field 'x' %(a nil value%)", 1 },
  { "addresses in a concatenation", "local _ = '' .. {}", "^attempt to concatenate a table value$", 1 },
  { "addresses in table.concat", "table.concat { {} }", "invalid value %(table%) at index 1", 1 },
  { "addresses in an argument's fault", "math.floor {}", "number expected, got table", 1 },
  { "addresses in assert", "assert(false, tostring {})", "^table$" },
  { "addresses of metatables", "error(tostring(getmetatable(lt)))", "^lt$" },
  { "the order of a hash",
    "local k = {} for i = 1, 50 do k['k' .. i * 7 % 50] = i end local o = {} for x in pairs(k) do o[#o + 1] = x end "
    .. "for i = 2, #o do assert(o[i - 1] < o[i]) end error('in order')", "in order" },
  { "the order of functions", "for _ in pairs { [print] = 1 } do end", "a key of type function has no order", 1 },
  { "the order of tables", "for _ in pairs { [{}] = 1 } do end", "a key of type table has no order", 1 },
  { "weak tables", "setmetatable({}, { __mode = 'k' })", "weak tables", 1 },
  { "math.random", "math.random()", "math.random differs from rank to rank", 1 },
  { "math.randomseed", "math.randomseed(1)", "math.random differs from rank to rank", 1 },
  { "the clock", "local _ = os.clock()", "undefined name 'os'", 1 },
}

local function add(title, list, memory)
  describe(title, function()
    teardown(function() os.remove(path) end)
    for _, case in ipairs(list) do
      local name, code, what, line = case[1], case[2], case[3], case[4]
      it(name, function()
        refused(function() return read(code .. "\nreturn nil", memory) end, memory and 5 or LIMIT, what, line)
      end)
    end
  end)
end

add("a recipe does not reach", reaching_out)
add("a recipe is ended that loops by", endless)
add("a pattern is ended:", patterns)
add("a recipe is stopped that bursts with", bombs, 16 * 2 ^ 20)
add("a recipe does not tell ranks apart by", different)

describe("later, a recipe is ended that", function()
  teardown(function() os.remove(path) end)
  it("loops while its graph is built, in a layer", function()
    write(good:format("1e-3"):gsub("heads = 1", "%0, ffn = function(x)\nwhile true do end end"))
    local r = lt.recipe(path, {}, {}, LIMIT)
    refused(function() return r:graph() end, LIMIT, "building the graph took more than 0.05 s", 3)
  end)
  it("makes a graph without end", function()
    write(good:format("1e-3"):gsub("heads = 1", "%0, ffn = function(x)\nwhile true do x = x + 1 end end"))
    local r = lt.recipe(path, {}, {}, 5)
    refused(function() return r:graph() end, 5, "a graph of more than 262144 operations", 3)
  end)
  it("fills a graph with names", function()
    write(good:format("1e-3"):gsub("heads = 1", "%0, ffn = function(x, ctx)\nctx:scope(('x'):rep(2^20), print) end"))
    local r = lt.recipe(path, {}, {}, LIMIT)
    refused(function() return r:graph() end, LIMIT, "a name of more than 256 bytes", 3)
  end)
  it("keeps a coroutine from one call to loop in another", function()
    write("local f = coroutine.wrap(function() coroutine.yield(1e-3)\nwhile true do end end)\n" .. good:format "f")
    local r = lt.recipe(path, {}, {}, LIMIT)
    assert.equal(1e-3, r:lr(0))
    refused(function() return r:lr(1) end, LIMIT, "optim.lr at step 1 took more than 0.05 s", 2)
  end)
  it("is slow only at step 50, and lives on", function()
    write(good:format "function(step)\n if step == 50 then\n while true do end end\n return 1e-3 end")
    local r = lt.recipe(path, {}, {}, LIMIT)
    for step = 0, 49 do assert.equal(1e-3, r:lr(step)) end
    refused(function() return r:lr(50) end, LIMIT, "optim.lr at step 50 took more than 0.05 s of processor time", 4)
    assert.equal(1e-3, r:lr(51))
  end)
  it("fills its memory from step to step, catching what it is told", function()
    write("local t = {}\n" .. good:format("function(step) pcall(function()\n"
      .. "while true do t[#t + 1] = ('x'):rep(2^16 - #t) end end) return 1e-3 end"))
    local r = lt.recipe(path, {}, {}, LIMIT, 16 * 2 ^ 20)
    for step = 0, 20 do
      local ok, e = pcall(r.lr, r, step) -- full to the brim: told so or done, and never the end of the process
      assert(ok or e.what:find "out of memory" or e.what:find "took more than", tostring(e))
    end
    works()
  end)
end)
