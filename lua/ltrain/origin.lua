-- origin.lua: where a setting comes from: --set, a line of the recipe and the arguments in it, or a default.
-- A key whose value is computed elsewhere has no line: the nearest key above it that is written stands in, and that is
-- said.
local lines = require "ltrain.lines"

local origin = {}
local methods = {}
local meta = { __index = methods }

-- written: { key path = "--set a.b=c" }, of what was changed after the recipe had run.
function origin.new(path, source, given, written)
  local line, used = lines.of(source)
  return setmetatable({ path = path, line = line, arguments = used, given = given, set = written }, meta)
end

local function above(key) return key:match "^(.*)%.[^%.%[%]]+$" or key:match "^(.*)%[[^%]]*%]$" or "" end

-- The value of a path of keys in what the recipe returned; below a bare value that stands for a list, that value.
local function value_at(t, key)
  for part in key:gmatch "[^%.%[%]]+" do
    if type(t) ~= "table" then return t end
    t = t[tonumber(part) or part]
  end
  return t
end

local function is_bare(self, key)
  local parent = above(key)
  local t = value_at(self.given, parent)
  return t ~= nil and type(t) ~= "table"
end

-- What --set changed below a key: the first by name, if any.
local function set_below(self, key)
  local found
  for path in pairs(self.set) do
    if path:sub(1, #key + 1) == key .. "." and (not found or path < found) then found = path end
  end
  return found and self.set[found]
end

-- The key at or above `key` that a table has: its path and value.
local function first_in(t, key)
  while not t[key] and key ~= "" do key = above(key) end
  return key, t[key]
end

-- The nearest written key at or above `key`: its path, "--set …" or a line; what --set wrote is all there is below it.
local function nearest(self, key)
  local path, at = first_in(self.set, key)
  if at then return path, at end
  path, at = first_in(self.line, key)
  return path, at and self.path .. ":" .. at or self.path
end

-- Fill fault.where; where it is the line of another key, the hint says which.
function methods.place(self, fault)
  if fault.where then return end
  local key = fault.key
  local found, at = nearest(self, key)
  fault.where = self.set[key] or set_below(self, key) or at
  if found == key or self.set[found] or fault.where ~= at then return end
  if value_at(self.given, key) == nil or is_bare(self, key) then return end
  local t = value_at(self.given, above(key))
  local made = type(t) == "table" and type(t.where) == "string" and t.where:match ":(%d+)$"
  local said = "no line of its own: this is " .. (found == "" and "the return" or found) ..
    (made and ", made in line " .. made or "")
  fault.hint = fault.hint and fault.hint .. " (" .. said .. ")" or said
end

-- Where a setting comes from, in words for people; and whether it is a default.
function methods.of(self, key)
  if value_at(self.given, key) == nil then return "default", true end
  local found, at = nearest(self, key)
  local used = self.arguments[found]
  if used and not self.set[found] then
    at = at .. ", argument" .. (#used > 1 and "s " or " ") .. table.concat(used, ", ")
  end
  return at, false
end

return origin
