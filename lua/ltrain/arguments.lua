-- arguments.lua: lt.arg: what a recipe lets the command line say, name=value.
-- A value becomes what its default is: a number, a boolean, a string. What nobody declared is an error that lists all.
local core = require "ltrain.core"

local arguments = {}
local values, declared, order = {}, {}, {}

-- Note the command line's { "name=value", … }.
function arguments.given(words)
  for _, word in ipairs(words) do
    local name, value = word:match "^([^=]*)=(.*)$"
    values[name] = value
  end
end

local convert = {
  string = function(text) return text end,
  number = tonumber,
  boolean = function(text)
    if text == "true" then return true elseif text == "false" then return false end
    return nil
  end,
}

-- lt.arg(name, default [, meaning]) → the value given on the command line, or the default
function arguments.arg(name, default, meaning)
  if type(name) ~= "string" or not name:match "^[%a_][%w_%-%.]*$" then
    core.fail { what = "lt.arg takes a name, a default and a meaning", got = core.tostring(name) }
  end
  local to = convert[type(default)]
  if not to then
    core.fail { what = "a default of lt.arg must be a number, a string or a boolean", key = name, got = type(default) }
  end
  if not declared[name] then order[#order + 1] = name end
  local value = default
  if values[name] ~= nil then
    value = to(values[name])
    if value == nil or value ~= value then
      core.fail { what = "the argument is no " .. type(default), key = name, expected = "a " .. type(default),
        got = values[name], code = 2 }
    end
  end
  declared[name] = { value = value, meaning = meaning or "" }
  return value
end

-- A fault for the first name=value that no lt.arg asked for.
function arguments.unused()
  local names = {}
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if not declared[name] then
      local near = core.nearest(name, order)
      local known = #order > 0 and "one of " .. table.concat(order, ", ") or "none: it declares none with lt.arg"
      return { what = "the recipe has no argument '" .. name .. "'", expected = known, code = 2,
        hint = near and "did you mean " .. near .. "?" }
    end
  end
end

function arguments.text()
  local out = {}
  for _, name in ipairs(order) do
    out[#out + 1] = string.format("%s = %s  %s\n", name, tostring(declared[name].value), declared[name].meaning)
  end
  return table.concat(out)
end

return arguments
