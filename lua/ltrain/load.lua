-- load.lua: a recipe from file to settings: its arguments, what it returns, --set, the checks; and what builds from it.
-- Runs in the recipe's state with the library's own environment; the recipe itself runs in the sandbox's.
local core = require "ltrain.core"
local walls = require "ltrain.walls"
local environment = require "ltrain.sandbox"
local arguments = require "ltrain.arguments"
local recipe = require "ltrain.recipe"
local lines = require "ltrain.lines"
local context = require "ltrain.context"
local nn = require "ltrain.nn"
local optim = require "ltrain.optim"
local lr = require "ltrain.lr"

local load = {}
local settings, place

-- ---- --set a.b=c ----

local function value_of(text)
  if text == "true" then return true end
  if text == "false" then return false end
  return tonumber(text) or text
end

-- Write one value into a copy of the tables on its way: what the recipe shares between keys stays as it was.
local function with(t, keys, i, value, set)
  local copy = {}
  if t ~= nil and type(t) ~= "table" then
    core.fail { what = "has no keys of its own", key = table.concat(keys, ".", 1, i - 1), expected = "a table",
      got = core.tostring(t), where = "--set " .. set }
  end
  for key, x in pairs(t or {}) do copy[key] = x end
  local key = tonumber(keys[i]) or keys[i]
  if i == #keys then copy[key] = value else copy[key] = with(copy[key], keys, i + 1, value, set) end
  return copy
end

local function apply_sets(given, sets)
  local origin = {}
  for _, set in ipairs(sets) do
    local path, text = set:match "^([^=]*)=(.*)$"
    local keys = {}
    for key in path:gmatch "[^%.]+" do keys[#keys + 1] = key end
    if #keys == 0 or table.concat(keys, ".") ~= path then
      core.fail { what = "--set takes KEY=VALUE", expected = "a key like train.steps", got = set,
        where = "--set " .. set, code = 2 }
    end
    given = with(given, keys, 1, value_of(text), set)
    origin[path] = "--set " .. set
  end
  return given, origin
end

-- ---- Reading ----

-- Where a fault's key is written: on the command line, in the returned table, or where its table was made.
local function locate(fault, path, written, origin, given)
  if fault.where then return end
  local key = fault.key
  while key and key ~= "" do
    if origin[key] then fault.where = origin[key] return end
    if written[key] then fault.where = path .. ":" .. written[key] return end
    local at = given
    for part in key:gmatch "[^%.]+" do at = type(at) == "table" and at[tonumber(part) or part] or nil end
    if type(at) == "table" and type(at.where) == "string" and at.where ~= "" then fault.where = at.where return end
    key = key:match "^(.*)[%.%[]"
  end
  fault.where = path .. (written[""] and ":" .. written[""] or "")
end

local MOST_FAULTS = 20

-- open(path, { "name=value" }, { "a.b=c" }) → settings, faults
function load.open(path, args, sets)
  arguments.given(args)
  local chunk, source = walls.load_module(path, environment)
  if not chunk then
    return {}, { { what = "there is no recipe of this name", where = path, code = 4 } }
  end
  local given = chunk()
  local unused = arguments.unused()
  if unused then return {}, { unused } end
  local origin
  if type(given) == "table" then given, origin = apply_sets(given, sets) end
  local checked, faults = recipe.check(given)
  local written = lines.of(source)
  for i, fault in ipairs(faults) do
    if i > MOST_FAULTS then faults[i] = nil else locate(fault, path, written, origin or {}, given) end
  end
  settings = checked
  place = function(key)
    local fault = { key = key }
    locate(fault, path, written, origin or {}, given)
    return fault.where
  end
  return checked, faults
end

-- Where a key is written that a later pass finds fault with.
function load.place(key) return place(key) end

-- ---- Building and asking ----

function load.build(builder)
  local ctx = context.new(builder, { training = true, recipe = true, place = settings.layout.place })
  nn.build(ctx, settings.model)
  ctx.places:check()
  optim.build(ctx, settings.optim)
end

function load.build_eval(builder)
  nn.build(context.new(builder, { training = false, recipe = true, place = settings.layout.place }), settings.model)
end

function load.lr(step) return lr.at(settings.optim.lr, step, settings.train.steps) end

-- ---- Showing ----

local function show(x)
  if type(x) == "string" then return string.format("%q", x) end
  if type(x) == "number" then return string.format("%.14g", x) end
  return core.tostring(x) == "function" and "function" or tostring(x)
end

local function add_lines(t, path, out)
  local keys = {}
  for key in pairs(t) do if key ~= "where" then keys[#keys + 1] = key end end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local at = type(key) == "number" and path .. "[" .. key .. "]" or (path == "" and key or path .. "." .. key)
    if type(t[key]) == "table" then add_lines(t[key], at, out) else out[#out + 1] = at .. " = " .. show(t[key]) end
  end
end

function load.settings_text()
  local out = {}
  add_lines(settings, "", out)
  return table.concat(out, "\n") .. "\n"
end

function load.arguments_text() return arguments.text() end

return load
