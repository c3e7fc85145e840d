-- schema.lua: checks tables of settings against what is registered for them, and fills in defaults.
-- A field is { type, min, max, above, below, choices, default, required, meaning, … }; a fault says what was expected
-- and what was there. All faults of a table are found at once; nothing given is changed: checking makes a copy.
local core = require "ltrain.core"

local schema = {}

-- ---- Faults ----

local function add(faults, path, what, more)
  local fault = { key = path, what = what }
  for key, value in pairs(more or {}) do fault[key] = value or nil end -- a hint may be false
  faults[#faults + 1] = fault
end

local function show(x)
  if type(x) == "string" then return string.format("%q", x) end
  if type(x) == "number" or type(x) == "boolean" or x == nil then return tostring(x) end
  local t = core.type(x)
  return (t == "table" and type(x.kind) == "string") and "lt … " .. x.kind .. " {}" or "a " .. t
end

local function quoted(list)
  local words = {}
  for i, word in ipairs(list) do words[i] = string.format("%q", word) end
  return table.concat(words, ", ")
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local function join(path, key)
  if type(key) == "number" then return path .. "[" .. key .. "]" end
  return path == "" and key or path .. "." .. key
end

-- ---- Types: each gives the value to use, or adds a fault ----

local types = {}
local check -- check(value, field, path, faults) → value

local function range_text(field, noun)
  local parts = {}
  if field.min then parts[#parts + 1] = "at least " .. field.min end
  if field.above then parts[#parts + 1] = "above " .. field.above end
  if field.max then parts[#parts + 1] = "at most " .. field.max end
  if field.below then parts[#parts + 1] = "below " .. field.below end
  return noun .. (#parts > 0 and " " .. table.concat(parts, ", ") or "")
end

local function in_range(x, field)
  return x == x and not (field.min and x < field.min) and not (field.max and x > field.max)
    and not (field.above and x <= field.above) and not (field.below and x >= field.below)
end

function types.number(value, field, path, faults)
  if type(value) == "number" and in_range(value, field) then return value end
  add(faults, path, "is no such number", { expected = range_text(field, "a number"), got = show(value) })
end

function types.integer(value, field, path, faults)
  if type(value) == "number" and value % 1 == 0 and math.abs(value) < 2 ^ 53 and in_range(value, field) then
    return value
  end
  add(faults, path, "is no such integer", { expected = range_text(field, "an integer"), got = show(value) })
end

function types.boolean(value, _, path, faults)
  if type(value) == "boolean" then return value end
  add(faults, path, "is not true or false", { expected = "true or false", got = show(value) })
end

types["function"] = function(value, _, path, faults)
  if type(value) == "function" then return value end
  add(faults, path, "is no function", { expected = "a function", got = show(value) })
end

function types.string(value, field, path, faults)
  if type(value) ~= "string" then
    return add(faults, path, "is no string",
      { expected = field.choices and "one of " .. quoted(field.choices) or "a string", got = show(value) })
  end
  if not field.choices then return value end
  for _, choice in ipairs(field.choices) do if choice == value then return value end end
  local near = core.nearest(value, field.choices)
  add(faults, path, "has no such value", {
    expected = "one of " .. quoted(field.choices), got = show(value),
    hint = near and string.format("did you mean %q?", near),
  })
end

-- Bytes: a number, or text like "2 GiB".
local units = { B = 1, KiB = 2 ^ 10, MiB = 2 ^ 20, GiB = 2 ^ 30, TiB = 2 ^ 40, kB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12 }
function types.size(value, _, path, faults)
  local bytes = value
  if type(value) == "string" then
    local number, unit = value:match "^%s*([%d%.]+)%s*(%a+)%s*$"
    bytes = tonumber(number) and units[unit] and math.floor(tonumber(number) * units[unit])
  end
  if type(bytes) == "number" and bytes >= 0 and bytes % 1 == 0 and bytes < 2 ^ 53 then return bytes end
  add(faults, path, "is no size", { expected = 'bytes, or text like "2 GiB"', got = show(value) })
end

-- A plain table with registered fields; false where the field may be switched off.
function types.table(value, field, path, faults)
  if value == false and field.default ~= nil then return false end
  if type(value) ~= "table" then
    return add(faults, path, "is no table", { expected = "a table", got = show(value) })
  end
  return schema.fields(value, field.fields, path, faults)
end

function types.list(value, field, path, faults)
  if type(value) ~= "table" then value = { value } end
  local out = {}
  for i, element in ipairs(value) do out[i] = check(element, field.of, join(path, i), faults) end
  return out
end

-- { kind = …, fields }: what a constructor of ours returned.
function types.kind(value, field, path, faults)
  if field.callable and type(value) == "function" then return value end
  local names = sorted_keys(field.kinds)
  local kind = type(value) == "table" and value.kind
  if not kind or not field.kinds[kind] then
    local near = type(kind) == "string" and core.nearest(kind, names)
    return add(faults, path, "is no kind that fits here", {
      expected = "one of " .. quoted(names) .. (field.callable and ", or a function" or ""), got = show(value),
      hint = near and string.format("did you mean %q?", near),
    })
  end
  local own = {}
  for key, x in pairs(value) do if key ~= "kind" and key ~= "where" then own[key] = x end end
  local out = schema.fields(own, field.kinds[kind], path, faults)
  out.kind, out.where = kind, value.where
  return out
end

-- Windows of attention: false, a number of keys, or one of them a layer.
function types.window(value, _, path, faults)
  local function one(x, at)
    if x == false then return false end
    return types.integer(x, { min = 1 }, at, faults)
  end
  if type(value) ~= "table" then return one(value, path) end
  local out = {}
  for i = 1, #value do out[i] = one(value[i], join(path, i)) end
  return out
end

function types.any(value) return value end

-- ---- Checking ----

function check(value, field, path, faults)
  if value == nil then
    if field.required then
      add(faults, path, "is missing", { expected = field.meaning, hint = field.hint })
      return nil
    end
    if field.default == nil then return nil end
    value = field.default
  end
  local f = types[field[1]]
  return f(value, field, path, faults)
end

-- Every field of `t` is registered in `fields`; the result has the defaults too.
function schema.fields(t, fields, path, faults)
  local out, names = {}, sorted_keys(fields)
  for _, key in ipairs(sorted_keys(t)) do
    if type(key) ~= "string" or not fields[key] then
      local near = type(key) == "string" and core.nearest(key, names)
      add(faults, join(path, key), "there is no such key", {
        expected = #names <= 12 and "one of " .. table.concat(names, ", ") or nil,
        hint = near and "did you mean " .. near .. "?",
      })
    end
  end
  for _, key in ipairs(names) do out[key] = check(t[key], fields[key], join(path, key), faults) end
  return out
end

-- A new type of field: f(value, field, path, faults) → the value to use.
function schema.add_type(name, f) types[name] = f end
schema.check = check
schema.add = add

-- Raise the first of some faults, if there are any.
function schema.raise(faults)
  local first = faults[1]
  if first then core.fail(first) end
end

return schema
