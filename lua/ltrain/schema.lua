-- schema.lua: the register of keys: checking, "did you mean", --set, the reference page and the stubs draw on it.
-- To add a key is to add its field to the list it belongs to (recipe.lua, or the constructor's file), nothing else:
--   { "steps", type = "integer", min = 0, default = 1000, unit = "steps", doc = "Length of the run." }
-- type     a name in types.lua, whose head lists what else its fields have
-- default  when it is not written; or required = true; or computed = "words" where `finish` works it out, and unset =
--          "words" for --check where it does not
-- unit     what a number counts; doc: sentences, for people
-- finish   function(value, path, fault) → value: checks across a value's own parts, once each of them is right
-- All faults are found at once; nothing given is changed: checking makes a copy, complete with the defaults.
local core = require "ltrain.core"
local unknown = require "ltrain.unknown"

local schema = {
  types = {},        -- filled by types.lua
  constructors = {}, -- in the order they were made, and by name: { name =, kind =, fields =, doc = }
}

-- ---- Faults: { key, what, expected, got, hint, where, code }, in the order they were found ----

function schema.add(faults, path, what, more)
  local fault = { key = path, what = what }
  for key, value in pairs(more or {}) do fault[key] = value or nil end -- a hint may be false
  faults[#faults + 1] = fault
end

-- Raise the first of some faults, if there are any.
function schema.raise(faults)
  local first = faults[1]
  if first then core.fail(first) end
end

-- A value in a message: what a person would have written.
function schema.show(x)
  if type(x) == "string" then return string.format("%q", #x > 64 and x:sub(1, 64) .. "…" or x) end
  if type(x) == "number" or type(x) == "boolean" or x == nil then return tostring(x) end
  local t = core.type(x)
  local made = t == "table" and type(x.kind) == "string" and schema.made_by(x.kind)
  if made then return made.name .. " { … }" end
  return t == "table" and next(x) == nil and "{}" or "a " .. t
end

-- ---- Names ----

function schema.join(path, key)
  if type(key) == "number" then return path .. "[" .. key .. "]" end
  if type(key) ~= "string" then return path .. "[" .. core.tostring(key) .. "]" end
  return path == "" and key or path .. "." .. key
end

-- The field of a name in a list of fields, nil.
function schema.field(fields, name)
  for _, field in ipairs(fields) do if field[1] == name then return field end end
end

function schema.names(fields)
  local out = {}
  for i, field in ipairs(fields) do out[i] = field[1] end
  return out
end

-- Any constructor of a kind: kinds of different families may have the same name, and any of them will do for a message.
function schema.made_by(kind)
  for _, made in ipairs(schema.constructors) do if made.kind == kind then return made end end
end

-- ---- Checking ----

-- The value of a field as it is used: read, completed, or nil and faults.
function schema.check(value, field, path, faults)
  local fault = unknown.fault(value)
  if fault then
    faults[#faults + 1] = fault
    return nil
  end
  if value == nil then
    if field.required then
      schema.add(faults, path, "is missing", { expected = schema.types[field.type].text(field) })
      return nil
    end
    if field.default == nil then return nil end
    value = field.default
  end
  local before = #faults
  local out = schema.types[field.type].read(value, field, path, faults)
  if #faults > before or not field.finish then return out end
  return field.finish(out, path, function(key, what, more) schema.add(faults, path .. key, what, more) end)
end

-- Where else a key of this name would belong: "train.steps".
local function elsewhere(name, fields, path)
  for _, field in ipairs(fields) do
    local at = schema.join(path, field[1])
    if field[1] == name then return at end
    local found = field.type == "table" and elsewhere(name, field.fields, at)
    if found then return found end
  end
end

local function misspelt(key, near, names, path, faults)
  local hint = near and "did you mean " .. near .. "?"
  local home = not near and schema.root and elsewhere(key, schema.root, "")
  if home then hint = "did you mean " .. home .. "?" end
  if #names == 0 then hint = "it has no keys" end
  schema.add(faults, schema.join(path, key), "there is no such key", {
    expected = #names > 0 and #names <= 12 and "one of " .. table.concat(names, ", ") or nil, hint = hint })
end

-- Keys in an order that is the same everywhere: strings by bytes behind numbers behind the rest.
local function keys_of(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    if type(a) == "number" or type(a) == "string" then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

-- A table with these fields and no others; the result has the defaults too.
function schema.fields(t, fields, path, faults)
  local out = {}
  local names, meant = schema.names(fields), {}
  for _, key in ipairs(keys_of(t)) do
    if not schema.field(fields, key) then
      local near = type(key) == "string" and core.nearest(key, names)
      misspelt(key, near, names, path, faults)
      meant[near or false] = true
    end
  end
  for _, field in ipairs(fields) do
    local name = field[1]
    if t[name] ~= nil or not meant[name] then -- one that is misspelt is not missing too
      out[name] = schema.check(t[name], field, schema.join(path, name), faults)
    end
  end
  return out
end

-- ---- Asking what a key is ----

-- The fields of a table of settings that `field` describes, as `value` has it; nil where it has none.
function schema.fields_in(field, value)
  local t = schema.types[field.type]
  return t.fields and t.fields(field, value)
end

-- The field of a path of keys in a recipe as given, so far as it is known: kinds are those that are there, or defaults.
function schema.at(keys, given)
  local fields, field = schema.root, nil
  for _, key in ipairs(keys) do
    if not fields then return nil end
    field = schema.field(fields, key)
    if not field then return nil end
    given = type(given) == "table" and given[key] or nil
    if given == nil then given = field.default end
    fields = schema.fields_in(field, given)
  end
  return field
end

return schema
