-- arguments.lua: lt.arg: what a recipe lets the command line say, name=value.
-- A value becomes what its default is: a number, a boolean, a string. What cannot, and what nobody declared, is a fault
-- beside those of the recipe: the recipe goes on with the default.
local core = require "ltrain.core"
local schema = require "ltrain.schema"

local arguments = {}
local values, declared, order, faults = {}, {}, {}, {}

local USAGE = 2

-- Note the command line's { "name=value", … }.
function arguments.given(words)
  for _, word in ipairs(words) do
    local name, value = word:match "^([^=]*)=(.*)$"
    if name then values[name] = value end
  end
end

local convert = {
  string = function(text) return text end,
  number = function(text)
    local x = tonumber(text)
    if x == x then return x end
  end,
  boolean = function(text)
    if text == "true" then return true elseif text == "false" then return false end
    return nil
  end,
}
local nouns = { string = "text", number = "a number", boolean = "true or false" }

local function given_as(name) return string.format("argument %s=%s", name, values[name]) end

local function read(name, default)
  local value = convert[type(default)](values[name])
  if value ~= nil then return value end
  if not declared[name] then
    schema.add(faults, "", "an argument is not what its default is", { where = given_as(name), code = USAGE,
      expected = string.format("%s, as %s is", nouns[type(default)], schema.show(default)), got = values[name] })
  end
  return default
end

-- lt.arg(name, default [, meaning]) → the value given on the command line, or the default
function arguments.arg(name, default, meaning)
  if type(name) ~= "string" or not name:match "^[%a_][%w_%-%.]*$" then
    core.fail { what = "lt.arg takes a name, a default and a meaning", got = core.tostring(name) }
  end
  if not convert[type(default)] then
    core.fail { what = "a default of lt.arg must be a number, a string or a boolean", key = name, got = type(default) }
  end
  local value = default
  if values[name] ~= nil then value = read(name, default) end
  if not declared[name] then order[#order + 1] = name end
  declared[name] = { value = value, meaning = type(meaning) == "string" and meaning or "" }
  return value
end

-- Is it given on the command line?
function arguments.is_given(name) return values[name] ~= nil end

local function near_to(name)
  local near = core.nearest(name, order)
  return near and "did you mean " .. near .. "?"
end

local function is_key(name)
  local first = name:match "^[^%.]+"
  return first and schema.root and schema.field(schema.root, first)
end

-- What --set is told of a key there is not: an argument may have been meant.
function arguments.hint(name)
  return declared[name] and name .. " is an argument: without --set" or near_to(name)
end

-- What is wrong with the command line's: in the order of declaration, then those that no lt.arg asked for.
function arguments.faults()
  local names, out = {}, {}
  for i, fault in ipairs(faults) do out[i] = fault end
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if not declared[name] then
      local known = #order > 0 and "one of " .. table.concat(order, ", ") or "none: the recipe has no lt.arg"
      schema.add(out, "", "the recipe has no such argument", { where = given_as(name), expected = known, code = USAGE,
        hint = is_key(name) and string.format("did you mean --set %s=%s?", name, values[name]) or near_to(name) })
    end
  end
  return out
end

-- Has the recipe declared it?
function arguments.has(name) return declared[name] ~= nil end

-- { { name, value, meaning, given }, … } in the order of declaration.
function arguments.list()
  local out = {}
  for i, name in ipairs(order) do
    out[i] = { name = name, value = declared[name].value, meaning = declared[name].meaning,
      given = arguments.is_given(name) }
  end
  return out
end

return arguments
