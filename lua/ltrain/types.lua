-- types.lua: the types a key can have: which values are meant, how they are read, how they are told.
-- A type is { admits(value, field), read(value, field, path, faults) → value, text(field) → what is expected,
-- stub(field) → its type in LuaLS, fields(field, value) → the fields inside }. What fields of each type have as well:
--   boolean, function, any value       nothing
--   integer, number                    min, max, above, below
--   size                               bytes as a number, or text like "2 GiB"; min, max
--   string                             choices
--   constant                           is: the one value
--   table                              fields
--   list                               of: a field for every element; one bare element is a list of it
--   tuple                              of: a list of fields, one for each element
--   map                                of: a field for every value; the keys are strings
--   made                               by: names of constructors, whose tables it takes
--   any                                of: fields; the first that admits the value reads it
local core = require "ltrain.core"
local schema = require "ltrain.schema"

local types = schema.types
local add, show, join = schema.add, schema.show, schema.join

local function field_text(field) return types[field.type].text(field) end

local function quoted(list)
  local words = {}
  for i, word in ipairs(list) do words[i] = string.format("%q", word) end
  return table.concat(words, ", ")
end

-- A type of one Lua type.
local function plain(name, noun, stub)
  types[name] = {
    admits = function(value) return type(value) == name end,
    read = function(value, field, path, faults)
      if type(value) == name then return value end
      add(faults, path, "is not " .. noun, { expected = field_text(field), got = show(value) })
    end,
    text = function() return noun end,
    stub = function() return stub end,
  }
end
plain("boolean", "true or false", "boolean")
plain("function", "a function", "function")

-- ---- Numbers ----

local LARGEST = 3.4028234663852886e38 -- of float32: what a kernel gets must be a number there

local function number(x) return string.format(x % 1 == 0 and "%.15g" or "%.8g", x) end

local function range_text(field, noun)
  local parts = {}
  if field.min and field.max then
    return string.format("%s from %s to %s", noun, number(field.min), number(field.max))
  end
  if field.min then parts[#parts + 1] = "at least " .. number(field.min) end
  if field.above then parts[#parts + 1] = "above " .. number(field.above) end
  if field.max then parts[#parts + 1] = "at most " .. number(field.max) end
  if field.below then parts[#parts + 1] = "below " .. number(field.below) end
  return noun .. (#parts > 0 and " " .. table.concat(parts, ", ") or "")
end

local function in_range(x, field)
  return math.abs(x) <= LARGEST and not (field.min and x < field.min) and not (field.max and x > field.max)
    and not (field.above and x <= field.above) and not (field.below and x >= field.below)
end

local function numeric(noun, fits, stub)
  return {
    admits = function(value) return type(value) == "number" end,
    read = function(value, field, path, faults)
      local what = (type(value) ~= "number" or not fits(value)) and "is not " .. noun
        or not in_range(value, field) and "is out of range"
      if not what then return value end
      local large = what == "is out of range" and math.abs(value) > LARGEST
      add(faults, path, what, { expected = range_text(field, noun) .. (large and " that float32 holds" or ""),
        got = show(value) })
    end,
    text = function(field) return range_text(field, noun) end,
    stub = function() return stub end,
  }
end
types.number = numeric("a number", function(x) return x == x end, "number")
types.integer = numeric("an integer", function(x) return x % 1 == 0 and math.abs(x) < 2 ^ 53 end, "integer")

local units = { B = 1, KiB = 2 ^ 10, MiB = 2 ^ 20, GiB = 2 ^ 30, TiB = 2 ^ 40, kB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12 }

local function bytes_of(value)
  if type(value) ~= "string" then return value end
  local digits, unit = value:match "^%s*(%d+%.?%d*)%s*(%a+)%s*$"
  return digits and units[unit] and math.floor(tonumber(digits) * units[unit])
end

types.size = {
  admits = function(value) return type(value) == "number" or type(value) == "string" end,
  read = function(value, field, path, faults)
    local bytes = bytes_of(value)
    if type(bytes) ~= "number" or bytes % 1 ~= 0 or bytes < 0 or bytes >= 2 ^ 53 then
      add(faults, path, "is not a size", { expected = field_text(field), got = show(value),
        hint = type(value) == "string" and "the units are B, KiB, MiB, GiB, TiB, kB, MB, GB, TB" })
    elseif not in_range(bytes, field) then
      add(faults, path, "is out of range", { expected = range_text(field, "a size"), got = show(value) })
    else
      return bytes
    end
  end,
  text = function() return 'bytes, or text like "2 GiB"' end,
  stub = function() return "integer|string" end,
}

-- ---- Words ----

types.string = {
  admits = function(value) return type(value) == "string" end,
  read = function(value, field, path, faults)
    if type(value) ~= "string" then
      return add(faults, path, "is not a string", { expected = field_text(field), got = show(value) })
    end
    for _, choice in ipairs(field.choices or { value }) do if choice == value then return value end end
    local near = core.nearest(value, field.choices)
    add(faults, path, "there is no such value", { expected = field_text(field), got = show(value),
      hint = near and string.format("did you mean %q?", near) })
  end,
  text = function(field)
    if not field.choices then return "a string" end
    return (#field.choices > 1 and "one of " or "") .. quoted(field.choices)
  end,
  stub = function(field)
    return field.choices and '"' .. table.concat(field.choices, '"|"') .. '"' or "string"
  end,
}

types.constant = {
  admits = function(value, field) return value == field.is end,
  read = function(value, field, path, faults)
    if value == field.is then return value end
    add(faults, path, "is not " .. show(field.is), { expected = field_text(field), got = show(value) })
  end,
  text = function(field) return show(field.is) end,
  stub = function(field) return show(field.is) end,
}

-- ---- Tables ----

local function is_table(value) return type(value) == "table" end

local function expect_table(value, field, path, faults)
  if is_table(value) then return true end
  add(faults, path, "is not a table", { expected = field_text(field), got = show(value) })
end

types.table = {
  admits = is_table,
  read = function(value, field, path, faults)
    return expect_table(value, field, path, faults) and schema.fields(value, field.fields, path, faults)
  end,
  text = function(field)
    local names = schema.names(field.fields)
    return #names <= 8 and "{ " .. table.concat(names, ", ") .. " }" or "a table"
  end,
  stub = function(field) return field.class or "table" end,
  fields = function(field, value) return (value == nil or is_table(value)) and field.fields or nil end,
}

types.list = {
  admits = is_table,
  read = function(value, field, path, faults)
    if not is_table(value) then value = { value } end
    local out = {}
    for key in pairs(value) do
      if type(key) ~= "number" or key < 1 or key > #value or key % 1 ~= 0 then
        return add(faults, path, "is not a list", { expected = field_text(field), got = "a table with the key " ..
          show(key) })
      end
    end
    for i, element in ipairs(value) do
      out[i] = schema.check(element, field.of, join(path, i), faults)
    end
    return out
  end,
  text = function(field) return "a list, each " .. (field.of.name or field_text(field.of)) end,
  stub = function(field)
    local of = types[field.of.type].stub(field.of)
    return of .. "|" .. (of:find "|" and "(" .. of .. ")" or of) .. "[]"
  end,
}

types.tuple = {
  admits = is_table,
  read = function(value, field, path, faults)
    if not expect_table(value, field, path, faults) then return nil end
    if #value ~= #field.of then
      return add(faults, path, "has another number of values", { expected = field_text(field), got = tostring(#value) })
    end
    local out = {}
    for i, of in ipairs(field.of) do out[i] = schema.check(value[i], of, join(path, i), faults) end
    return out
  end,
  text = function(field)
    local words = {}
    for i, of in ipairs(field.of) do words[i] = of.name end
    return "{ " .. table.concat(words, ", ") .. " }"
  end,
  stub = function(field)
    local words = {}
    for i, of in ipairs(field.of) do words[i] = types[of.type].stub(of) end
    return "[" .. table.concat(words, ", ") .. "]"
  end,
}

types.map = {
  admits = is_table,
  read = function(value, field, path, faults)
    if not expect_table(value, field, path, faults) then return nil end
    local keys, out = {}, {}
    for key in pairs(value) do
      if type(key) ~= "string" then
        return add(faults, join(path, key), "is not a name", { expected = "text as a key", got = show(key) })
      end
      keys[#keys + 1] = key
    end
    table.sort(keys)
    for _, key in ipairs(keys) do out[key] = schema.check(value[key], field.of, join(path, key), faults) end
    return out
  end,
  text = function(field) return '{ ["' .. field.key .. '"] = ' .. field_text(field.of) .. " }" end,
  stub = function(field) return "table<string, " .. types[field.of.type].stub(field.of) .. ">" end,
}

-- ---- { kind = …, fields }: what a constructor of ours returned ----

local function maker(field, value)
  local kind = is_table(value) and value.kind
  if kind == nil and is_table(value) and field.default then kind = field.default.kind end
  for _, name in ipairs(field.by) do
    local made = schema.constructors[name]
    if made.kind == kind then return made end
  end
end

local function kinds_of(field)
  local kinds = {}
  for i, name in ipairs(field.by) do kinds[i] = schema.constructors[name].kind end
  return kinds
end

types.made = {
  admits = function(value) return is_table(value) and (value.kind ~= nil or #value == 0) end, -- no list
  read = function(value, field, path, faults)
    local made = maker(field, value)
    if not made then
      local word = is_table(value) and value.kind or value
      local near = type(word) == "string" and core.nearest(word, kinds_of(field))
      for _, name in ipairs(field.by) do
        if near == schema.constructors[name].kind then near = "did you mean " .. name .. " {}?" break end
      end
      return add(faults, path, "is not what fits here",
        { expected = field_text(field), got = show(value), hint = near })
    end
    local own, before = {}, #faults
    for key, x in pairs(value) do if key ~= "kind" and key ~= "where" then own[key] = x end end
    local out = schema.fields(own, made.fields, path, faults)
    out.kind, out.where = made.kind, value.where
    if made.finish and #faults == before then
      made.finish(out, path, function(key, what, more) add(faults, path .. key, what, more) end)
    end
    return out
  end,
  text = function(field)
    local words = {}
    for i, name in ipairs(field.by) do words[i] = name .. " {}" end
    return table.concat(words, ", ")
  end,
  stub = function(field) return table.concat(field.by, "|") end,
  fields = function(field, value)
    local made = maker(field, value)
    return made and made.fields
  end,
}

-- ---- One of several types ----

local function meant(field, value)
  for _, of in ipairs(field.of) do if types[of.type].admits(value, of) then return of end end
end

types.any = {
  admits = function(value, field) return meant(field, value) ~= nil end,
  read = function(value, field, path, faults)
    local of = meant(field, value)
    if not of then
      return add(faults, path, "is not what fits here", { expected = field_text(field), got = show(value) })
    end
    local own = {}
    local out = schema.check(value, of, path, own)
    for _, fault in ipairs(own) do
      if fault.key == path then fault.expected = field_text(field) end
      faults[#faults + 1] = fault
    end
    return out
  end,
  text = function(field)
    local words = {}
    for i, of in ipairs(field.of) do words[i] = field_text(of) end
    return table.concat(words, ", or ")
  end,
  stub = function(field)
    local words = {}
    for i, of in ipairs(field.of) do words[i] = types[of.type].stub(of) end
    return table.concat(words, "|")
  end,
  fields = function(field, value)
    local of = meant(field, value == nil and {} or value)
    return of and schema.fields_in(of, value)
  end,
}

return types
