-- set.lua: --set a.b=c: changes to what a recipe returned, before it is checked.
-- Text becomes what the schema says the key is: a number, true or false, a list, or a table as a recipe would write it;
-- a key it does not know is refused by the check, as if it had been written.
local schema = require "ltrain.schema"

local set = {}

local USAGE = 2

local function scalar(text)
  if text == "true" then return true end
  if text == "false" then return false end
  return tonumber(text) or text
end

-- Only text may be meant.
local function is_text(field)
  if not field then return false end
  if field.type == "list" then return is_text(field.of) end
  return field.type == "string"
end

-- A list whose elements are words or numbers: commas part them. A pattern of files may hold one.
local function list_of(field)
  if field.type == "any" then
    for _, of in ipairs(field.of) do if of.type == "list" then return list_of(of) end end
  end
  local of = field.type == "list" and field.of
  return of and (of.type ~= "string" or of.choices) and of or nil
end

-- ---- Tables: { 1, "a", { 0, 256 } } or { peak = 1e-3 }: plain values in braces, as settings.txt has them ----

local literal

-- A field of a table: its key (nil: the next place), where its value starts.
local function key_at(text, at)
  local name, value = text:match("^([%a_][%w_]*)%s*=%s*()", at)
  if name then return name, value end
  local quote, quoted, behind = text:match("^%[%s*(['\"])(.-)%1%s*%]%s*=%s*()", at)
  return quote and quoted, behind or at
end

local function braced(text, at, depth)
  local out, n = {}, 0
  at = text:match("^%s*()", at)
  while text:sub(at, at) ~= "}" do
    local key, start = key_at(text, at)
    local value, behind = literal(text, start, depth + 1)
    if value == nil then return nil end
    if not key then n = n + 1 end
    out[key or n] = value
    local separator, next_at = text:match("^%s*([,;]?)%s*()", behind)
    if separator == "" and text:sub(next_at, next_at) ~= "}" then return nil end
    at = next_at
  end
  return out, at + 1
end

-- → the value that starts at `at`, and where it ends; nil: it is none.
function literal(text, at, depth)
  if depth > 16 then return nil end
  if text:sub(at, at) == "{" then return braced(text, at + 1, depth) end
  local quote, quoted, behind = text:match("^(['\"])(.-)%1()", at)
  if quote then return quoted, behind end
  local word, ends = text:match("^([%w_%.%+%-]+)()", at)
  if word == "true" or word == "false" then return word == "true", ends end
  return tonumber(word or ""), ends
end

-- A table that text is, to its end; nil: it is none.
local function table_of(text)
  if text:sub(1, 1) ~= "{" then return nil end
  local out, ends = literal(text, 1, 1)
  return out ~= nil and text:find("^%s*$", ends) and out or nil
end

-- ---- Text and values ----

local function value_of(text, field)
  local whole = table_of(text)
  if whole then return whole end
  if text:find "^{" then return text end -- one that is not whole is told as it stands
  if is_text(field) and not list_of(field) then return text end
  local element = field and text:find(",", 1, true) and list_of(field)
  if not element then return scalar(text) end
  local out = {}
  for word in text:gmatch "[^,]+" do out[#out + 1] = is_text(element) and word or scalar(word) end
  return out
end

local function path_of(keys, n)
  local path = ""
  for i = 1, n or #keys do path = schema.join(path, keys[i]) end
  return path
end

-- Write one value into a copy of the tables on its way: what the recipe shares between keys stays as it was.
local function with(t, keys, i, value, refuse)
  local copy = {}
  if t ~= nil and type(t) ~= "table" then
    refuse(path_of(keys, i - 1), t)
    return t
  end
  for key, x in pairs(t or {}) do copy[key] = x end
  if i == #keys then copy[keys[i]] = value else copy[keys[i]] = with(copy[keys[i]], keys, i + 1, value, refuse) end
  return copy
end

local function keys_of(path)
  local keys = {}
  for key in path:gmatch "[^%.]+" do keys[#keys + 1] = tonumber(key) or key end
  return #keys > 0 and not path:find "%.%." and not path:find "^%." and not path:find "%.$" and keys or nil
end

-- apply(given, { "a.b=c" }, faults) → a changed copy, { key path = "--set a.b=c" }
function set.apply(given, sets, faults)
  local origin = {}
  for _, word in ipairs(sets) do
    local where = "--set " .. word
    local path, text = word:match "^([^=]*)=(.*)$"
    local keys = keys_of(path or "")
    if keys then
      given = with(given, keys, 1, value_of(text, schema.at(keys, given)), function(key, t)
        schema.add(faults, key, "has no keys of its own", { where = where, expected = "a table", got = schema.show(t) })
      end)
      origin[path_of(keys)] = where
    else
      schema.add(faults, "", "--set takes KEY=VALUE", { where = where, expected = "a key like train.steps", got = word,
        code = USAGE })
    end
  end
  return given, origin
end

return set
