-- banner.lua: every effective setting of a recipe, in the order of the schema, with where it comes from.
local schema = require "ltrain.schema"

local banner = {}

-- ---- Values as Lua writes them ----

local show

local function show_table(t)
  local words = {}
  for i, x in ipairs(t) do words[i] = show(x) end
  local names = {}
  for key in pairs(t) do if type(key) == "string" then names[#names + 1] = key end end
  table.sort(names)
  for _, key in ipairs(names) do
    words[#words + 1] = (key:match "^[%a_][%w_]*$" and key or string.format("[%q]", key)) .. " = " .. show(t[key])
  end
  return #words > 0 and "{ " .. table.concat(words, ", ") .. " }" or "{}"
end

function show(x)
  if type(x) == "string" then return string.format("%q", x) end
  if type(x) == "number" then
    local short = string.format("%.14g", x)
    return tonumber(short) == x and short or string.format("%.17g", x)
  end
  if type(x) == "table" then return show_table(x) end
  return type(x) == "function" and "function" or tostring(x)
end

-- ---- Rows: { key, value, the key it hangs on } ----

local add_rows

-- unset: what has no value of its own has a row too, with the words of what it comes to.
local function add_row(value, field, path, rows, unset)
  local inside = type(value) == "table" and schema.fields_in(field, value)
  if not inside then
    if value ~= nil then
      rows[#rows + 1] = { key = path, value = show(value) }
    elseif unset and field.computed then
      rows[#rows + 1] = { key = path, value = field.unset or field.computed, words = true }
    end
    return
  end
  local made = type(value.kind) == "string" and schema.made_by(value.kind)
  if made then rows[#rows + 1] = { key = path, value = made.name } end
  add_rows(value, inside, path, rows, unset)
end

function add_rows(settings, fields, path, rows, unset)
  for _, field in ipairs(fields) do
    add_row(settings[field[1]], field, schema.join(path, field[1]), rows, unset)
  end
end

local function rows_of(settings, unset)
  local rows = {}
  add_rows(settings, schema.root, "", rows, unset)
  return rows
end

-- ---- Texts ----

-- "key = value" a line.
function banner.plain(settings)
  local out = {}
  for i, row in ipairs(rows_of(settings)) do out[i] = row.key .. " = " .. row.value .. "\n" end
  return table.concat(out)
end

-- "key<tab>value<tab>origin" a line.
function banner.rows(settings, origin)
  local out = {}
  for i, row in ipairs(rows_of(settings)) do
    local value = row.value:gsub("\\\n", "\\n"):gsub("\t", "\\t")
    out[i] = row.key .. "\t" .. value .. "\t" .. (origin:of(row.key)) .. "\n"
  end
  return table.concat(out)
end

local function columns(rows, out)
  local key, value = 0, 0
  for _, row in ipairs(rows) do
    key = math.max(key, #row.key)
    value = math.max(value, row.words and 0 or math.min(#row.value, 36))
  end
  for _, row in ipairs(rows) do
    out[#out + 1] = string.format("  %-" .. key .. "s  %-" .. value .. "s  %s\n", row.key, row.value, row.origin)
  end
end

-- A table: key, value, where it is from. Without `all` only what is not a default.
function banner.text(settings, origin, arguments, all)
  local said, defaults, out = {}, {}, {}
  for _, x in ipairs(arguments) do
    said[#said + 1] = { key = x.name .. "=", value = show(x.value), origin = x.given and "command line" or
      "argument, default" }
  end
  for _, row in ipairs(rows_of(settings, true)) do
    local default
    row.origin, default = origin:of(row.key)
    local list = default and defaults or said
    list[#list + 1] = row
  end
  if all then for _, row in ipairs(defaults) do said[#said + 1] = row end end
  columns(said, out)
  if not all then out[#out + 1] = string.format("  and %d defaults: --check shows them\n", #defaults) end
  return table.concat(out)
end

return banner
