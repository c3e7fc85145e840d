-- sandbox.lua: the world a recipe sees; runs once in every recipe state and returns the recipe's environment.
-- Code here sees the real libraries; the recipe sees only what this file hands out, read-only and in a fixed order.
-- What bounds time and memory is in host/script/sandbox.c.
local walls = require "ltrain.walls"
local core = require "ltrain.core"
local lt = require "ltrain"
local unknown = require "ltrain.unknown"
local nearest = core.nearest

local type, next, error, pcall, select, tostring, rawget = type, next, error, pcall, select, tostring, rawget
local format, sort, concat = string.format, table.sort, table.concat

-- Families of constructors: a name they have not is told with all other faults of a recipe.
local family = { ["lt.nn"] = true, ["lt.optim"] = true, ["lt.lr"] = true, ["lt.policy"] = true }

-- A view of a table that cannot be written, nor its tables.
local function read_only(t, name)
  local view = {}
  for key, value in next, t do
    view[key] = type(value) == "table" and getmetatable(value) == nil and read_only(value, name .. "." .. key) or value
  end
  local keys = {}
  for key in next, view do if type(key) == "string" then keys[#keys + 1] = key end end
  return setmetatable({}, {
    __metatable = name,
    __index = function(_, key)
      local value = view[key]
      if value ~= nil then return value end
      local near = type(key) == "string" and nearest(key, keys)
      local hint = near and format("did you mean '%s'?", near)
      local fault = { what = format("%s has no '%s'", name, tostring(key)), hint = hint }
      return family[name] and unknown.constructor(fault) or core.fail(fault)
    end,
    __newindex = function(_, key)
      core.fail { what = format("%s is read-only: %s was assigned to", name, tostring(key)) }
    end,
  })
end

-- ---- Basic functions, without what differs between ranks or outlives the watchdog ----

-- Keys in one order everywhere: numbers ascending, strings by bytes, booleans.
local rank = { number = 1, string = 2, boolean = 3 }
local function before(a, b)
  local ra, rb = rank[type(a)], rank[type(b)]
  if ra ~= rb then return ra < rb end
  if ra == 3 then return b and not a end
  return a < b
end

local function pairs_in_order(t)
  if type(t) ~= "table" then core.fail { what = "pairs takes a table, not " .. type(t) } end
  local keys = {}
  for key in next, t do
    if not rank[type(key)] then core.fail { what = "pairs: a key of type " .. type(key) .. " has no order" } end
    keys[#keys + 1] = key
  end
  sort(keys, before)
  local i = 0
  return function()
    local key, value
    repeat
      i = i + 1
      key = keys[i]
      if key == nil then return nil end
      value = t[key]
    until value ~= nil
    return key, value
  end
end

-- Addresses differ between ranks: only the type is told.
local function to_text(x)
  local t = type(x)
  if t == "userdata" then return core.tostring(x) end
  if t == "table" then
    local meta = getmetatable(x)
    return type(meta) == "table" and meta.__tostring and tostring(x) or t
  end
  if t == "function" or t == "thread" then return t end
  return tostring(x)
end

-- After the watchdog has spoken no protected call catches; a handler runs after unwinding, where it can be ended.
local function unless_expired(ok, ...)
  if not ok and walls.expired() then error((...), 0) end
  return ok, ...
end

local function protected(f, ...) return unless_expired(pcall(f, ...)) end

local function handled(handler, ok, ...)
  if ok then return true, ... end
  if walls.expired() then error((...), 0) end
  return false, select(2, protected(handler, (...)))
end

local function protected_by(f, handler, ...) return handled(handler, pcall(f, ...)) end

local function print(...)
  local words = {}
  for i = 1, select("#", ...) do words[i] = to_text((select(i, ...))) end
  walls.print(concat(words, "\t") .. "\n")
end

-- A collector that runs at other moments on other ranks must not be seen at work.
local function set_metatable(t, meta)
  if type(meta) == "table" and rawget(meta, "__mode") ~= nil then
    core.fail { what = "setmetatable: weak tables lose their keys at other moments on other ranks" }
  end
  return setmetatable(t, meta)
end

-- ---- Libraries: what does much in C, where the watchdog cannot speak, is bounded or done here ----

local safe_string = {}
for _, name in ipairs { "byte", "char", "len", "lower", "reverse", "sub", "upper" } do
  safe_string[name] = string[name]
end
for name, f in next, core.pattern do safe_string[name] = f end
safe_string.rep = walls.rep

function safe_string.format(f, ...)
  local args, n, i = { ... }, select("#", ...), 0
  for flags, kind in core.pattern.gmatch(f, "%%([-+ #0-9.]*)(.?)") do
    if kind ~= "%" or flags ~= "" then i = i + 1 end
    if kind == "p" then core.fail { what = "string.format: %p is not for recipes" } end
    if kind == "s" and i <= n then args[i] = to_text(args[i]) end
  end
  return format(f, unpack(args, 1, n))
end

-- ("x"):rep(n) goes through the strings' own metatable, not through the environment.
local meta = getmetatable("")
meta.__index = read_only(safe_string, "string")
meta.__metatable = "string"

local function check_table(t, name)
  if type(t) ~= "table" then core.fail { what = name .. " takes a table, not " .. type(t) } end
end

local safe_table = { concat = concat, maxn = table.maxn, unpack = unpack, remove = table.remove }

function safe_table.insert(t, ...)
  check_table(t, "table.insert")
  local n, count = #t, select("#", ...)
  if count == 1 then
    t[n + 1] = (...)
    return
  end
  local at, value = ...
  if count ~= 2 or type(at) ~= "number" then
    core.fail { what = "table.insert takes a table, a position if it is not the end, and a value" }
  end
  if not (at >= 1 and at <= n + 1 and at % 1 == 0) then
    core.fail { what = format("table.insert: there is no position %.14g in a table of %d", at, n) }
  end
  for i = n, at, -1 do t[i + 1] = t[i] end
  t[at] = value
end

-- Comparing is Lua's work, whoever compares: an order that makes sorting slow is met by the watchdog.
function safe_table.sort(t, comes_before)
  check_table(t, "table.sort")
  if comes_before ~= nil and type(comes_before) ~= "function" then
    core.fail { what = "table.sort takes a function, not " .. type(comes_before) }
  end
  walls.guard()
  sort(t, comes_before and function(a, b) return (comes_before(a, b)) end or function(a, b) return a < b end)
end

local safe_math = {}
for key, value in next, math do
  if key ~= "random" and key ~= "randomseed" then safe_math[key] = value end
end
function safe_math.random()
  core.fail { what = "math.random differs from rank to rank", hint = "lt.random(seed, stream):uniform() does not" }
end
safe_math.randomseed = safe_math.random

local safe_coroutine = { create = coroutine.create, running = coroutine.running, status = coroutine.status,
  yield = coroutine.yield, resume = walls.resume, wrap = walls.wrap }

-- ---- require ----

local loaded = {}
local environment

local function require_module(name)
  if type(name) ~= "string" then core.fail { what = "require takes a name" } end
  if name == "ltrain" then return environment.lt end
  local part = name:match "^ltrain%.([%l_]+)$"
  if part then return environment.lt[part] end
  if loaded[name] ~= nil then return loaded[name] end
  if not name:match "^[%w_][%w_%-]*[%.%w_%-]*$" or name:find("..", 1, true) then
    core.fail { what = format("require '%s': only ltrain modules and files beside the recipe", name) }
  end
  local path = walls.recipe_dir() .. "/" .. name:gsub("%.", "/") .. ".lua"
  local chunk = walls.load_module(path, environment, true)
  if not chunk then core.fail { what = format("require '%s': there is no file %s", name, path) } end
  loaded[name] = true
  local result = chunk(name)
  if result ~= nil then loaded[name] = result end
  return loaded[name]
end

-- ---- The environment ----

-- Of the library: what recipes are written with. lt.arg is theirs alone.
local offered = { arg = require("ltrain.arguments").arg }
for _, name in ipairs { "nn", "optim", "lr", "control", "policy", "op", "random", "version" } do
  offered[name] = lt[name]
end

local names = {
  assert = assert, error = error, ipairs = ipairs, pairs = pairs_in_order, pcall = protected, xpcall = protected_by,
  select = select, tonumber = tonumber, tostring = to_text, type = type, unpack = unpack, print = print,
  setmetatable = set_metatable, getmetatable = getmetatable, rawequal = rawequal, require = require_module,
  _VERSION = _VERSION,
  string = meta.__index,
  table = read_only(safe_table, "table"),
  math = read_only(safe_math, "math"),
  coroutine = read_only(safe_coroutine, "coroutine"),
  bit = read_only(bit, "bit"),
  lt = read_only(offered, "lt"),
}

local known = {}
for key in next, names do known[#known + 1] = key end

environment = setmetatable({}, {
  __metatable = "recipe",
  __index = function(_, key)
    local value = names[key]
    if value ~= nil then return value end
    local near = offered[key] ~= nil and "lt." .. key or nearest(key, known)
    core.fail { what = format("undefined name '%s'", key), hint = near and "did you mean '" .. near .. "'?" }
  end,
  __newindex = function(_, key)
    core.fail { what = format("assignment to the undefined name '%s'", key), hint = "write `local " .. key .. "`" }
  end,
})
return environment
