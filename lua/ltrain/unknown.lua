-- unknown.lua: constructors there are not, while a recipe is read: each is a fault among others, not the end of all.
-- In its place stands a function, and what that returns stands for the value: checks pass it over, and whatever else is
-- done with it raises the fault. A recipe in which one was named is refused, whatever became of it.
local core = require "ltrain.core"

local unknown = {}
local faults, fault_of -- while a recipe is read: those found, and by what stands for a value

local function raising(fault)
  local meta = { __metatable = "unknown" }
  for _, event in ipairs { "index", "newindex", "call", "add", "sub", "mul", "div", "mod", "pow", "unm", "concat", "eq",
    "lt", "le", "tostring" } do
    meta["__" .. event] = function() core.fail(fault) end
  end
  return meta
end

-- begin() … finish() → the faults in between.
function unknown.begin() faults, fault_of = {}, {} end
function unknown.finish()
  local found = faults
  faults, fault_of = nil, nil
  return found
end

-- What stands for a constructor that a recipe names and does not have; nil: raise the fault, nobody collects.
function unknown.constructor(fault)
  if not faults then return nil end
  fault.where = core.where()
  faults[#faults + 1] = fault
  return function()
    local value = setmetatable({}, raising(fault))
    fault_of[value] = fault
    return value
  end
end

-- The fault that a value stands for.
function unknown.fault(value) return fault_of and type(value) == "table" and fault_of[value] or nil end

return unknown
