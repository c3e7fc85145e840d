-- control.lua: lt.control: numbers of a run that may change between steps, by name and within a range.
-- A graph reads them where an operation takes a control; policies set them. Some are there without being declared.
local core = require "ltrain.core"

local control = {}
local declared, order = {}, {}

local fields = { "name", "kind", "default", "range", "doc" }

local function add(c)
  declared[c.name] = c
  order[#order + 1] = c
  return c
end

local function fault(what, more)
  more = more or {}
  more.what = what
  core.fail(more)
end

local function check_fields(spec)
  if type(spec) ~= "table" then
    fault("lt.control takes a table of fields",
      { expected = "lt.control { name = …, default = … }", got = core.type(spec) })
  end
  for key in pairs(spec) do
    local known = false
    for _, name in ipairs(fields) do known = known or key == name end
    if not known then
      local near = type(key) == "string" and core.nearest(key, fields)
      fault("lt.control has no field " .. tostring(key), { expected = "one of " .. table.concat(fields, ", "),
        hint = near and "did you mean " .. near .. "?" or nil })
    end
  end
end

local function read_range(spec)
  local range = spec.range
  if range == nil then return -math.huge, math.huge end
  if type(range) ~= "table" or type(range[1]) ~= "number" or type(range[2]) ~= "number" or #range ~= 2
    or range[1] > range[2] or range[1] ~= range[1] or range[2] ~= range[2] then
    fault("the range of a control is two numbers", { key = spec.name, expected = "{ least, most }",
      got = core.tostring(range) })
  end
  return range[1], range[2]
end

-- lt.control { name, kind = "result" | "speed", default, range = { least, most }, doc } → what ctx:control takes.
-- result: may change numbers, set from counts and losses; speed: may not, and is set from times too.
function control.control(spec)
  check_fields(spec)
  local name, kind = spec.name, spec.kind or "result"
  if type(name) ~= "string" or not name:match "^[%a_][%w_%.%-]*$" then
    fault("a control has a name", { expected = "letters, digits, dots", got = core.tostring(name) })
  end
  if kind ~= "result" and kind ~= "speed" then
    fault("there is no such kind of control", { key = name, expected = 'one of "result", "speed"',
      got = core.tostring(kind) })
  end
  if declared[name] then
    fault("there is a control of this name already", { key = name, got = declared[name].where })
  end
  local least, most = read_range(spec)
  if type(spec.default) ~= "number" or not (spec.default >= least and spec.default <= most) then
    fault("a control has a default within its range", { key = name,
      expected = string.format("%.14g to %.14g", least, most), got = core.tostring(spec.default) })
  end
  add { name = name, of = kind, default = spec.default, least = least, most = most, where = core.where() }
  return { kind = "control", name = name, default = spec.default }
end

-- What a run has in any case: for the library's own parts. Declared by the recipe itself it is a fault.
function control.builtin(name, default, least, most, kind)
  if declared[name] then
    fault("this control is there already", { key = name, where = declared[name].where })
  end
  add { name = name, of = kind or "result", default = default, least = least, most = most, where = "" }
end

-- The least and the most a declared control may be; nothing, if there is no such control.
function control.range(name)
  local c = declared[name]
  if c then return c.least, c.most end
end

-- The control a layer asks for: what lt.control returned, or a name and a default, which declare it with any range.
function control.find(x, default)
  if type(x) == "table" and x.kind == "control" then x = x.name end
  if type(x) ~= "string" then
    fault("ctx:control takes a control or a name", { expected = "what lt.control returned", got = core.type(x) })
  end
  local c = declared[x]
  if not c and default == nil then
    local names = {}
    for i, known in ipairs(order) do names[i] = known.name end
    local near = core.nearest(x, names)
    fault("there is no control '" .. x .. "'", { expected = "one of " .. table.concat(names, ", "),
      hint = near and "did you mean " .. near .. "?" or "lt.control declares one" })
  end
  c = c or add { name = x, of = "result", default = default, least = -math.huge, most = math.huge,
    where = core.where() }
  if c.of == "speed" then
    fault("a speed control must not change numbers", { key = x, expected = 'one of kind = "result"', got = c.where })
  end
  return c.name, c.default
end

function control.list() return order end

return control
