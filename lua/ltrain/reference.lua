-- reference.lua: what is written from the schema: the page recipes/REFERENCE.md and the stubs lua/library/lt.lua.
-- Both are texts of the schema and of the table of operations, nothing else: lua/reference.lua writes them, and a test
-- fails when the files are not what it would write.
local core = require "ltrain.core"
local schema = require "ltrain.schema"
require "ltrain.recipe"

local reference = {}

local function text(field) return schema.types[field.type].text(field) end

-- ---- Words ----

local function value_text(x)
  if type(x) == "string" then return string.format("%q", x) end
  if type(x) == "number" then return string.format("%.14g", x) end
  if type(x) ~= "table" then return tostring(x) end
  local made = x.kind and schema.made_by(x.kind)
  return made and made.name .. " {}" or "{}"
end

local function default_text(field)
  if field.required then return "**needed**" end
  if field.default ~= nil then return "`" .. value_text(field.default) .. "`" end
  return field.computed or "none"
end

-- "an integer from 1 to 8, tokens"
local function kind_text(field)
  local said = text(field)
  if field.unit and field.type ~= "size" then said = said .. "; " .. field.unit end
  return said
end

local function cell(s) return (s:gsub("|", "\\|")) end

-- ---- The page ----

local function add(out, ...) out[#out + 1] = string.format(...) end

-- The fields of a plain table; what constructors make has tables of its own.
local function inside(field)
  if field.type == "table" then return field.fields end
  for _, of in ipairs(field.type == "any" and field.of or {}) do if of.type == "table" then return of.fields end end
end

local function add_rows(out, fields, path)
  for _, field in ipairs(fields) do
    local at = schema.join(path, field[1])
    add(out, "| `%s` | %s | %s | %s |\n", at, cell(kind_text(field)), cell(default_text(field)), cell(field.doc))
    add_rows(out, inside(field) or {}, at)
  end
end

local function add_table(out, fields)
  add(out, "| key | value | default | meaning |\n| --- | --- | --- | --- |\n")
  add_rows(out, fields, "")
end

-- The names of an operation's inputs; "..." where there may be any number.
local function inputs_of(op)
  local names = {}
  for name in op.inputs:gmatch "%S+" do names[#names + 1] = name end
  if #names > 0 or op.most == 0 then return names end
  if op.most == 1 then return { "x" } end
  return op.most == 2 and { "a", "b" } or { "..." }
end

local function add_operations(out)
  add(out, "\n## Operations\n\n`lt.op.NAME(inputs …, { attributes })` takes symbolic values and gives one or more; "
    .. "`+ - * /` work on them too.\n\n| operation | inputs | attributes | what it does |\n| --- | --- | --- | --- |\n")
  for _, op in ipairs(core.ops()) do
    local words = {}
    for i, a in ipairs(op.attributes) do
      words[i] = string.format("`%s`%s: %s", a.name, a.required and "" or "?", a.doc)
    end
    add(out, "| `%s` | %s | %s | %s |\n", op.name, table.concat(inputs_of(op), " "), cell(table.concat(words, "; ")),
      cell(op.doc))
  end
end

function reference.page()
  local out = {}
  add(out, "# What a recipe may say\n\nWritten by `ltrain-lua --script lua/reference.lua` from the schema; not by hand."
    .. "\n\nA recipe returns a table of the keys below. What is marked **needed** has no default. Every key can be "
    .. "changed from the command line: `--set train.steps=100`. Sizes are bytes, or text: `\"2 GiB\"`, `\"500 MB\"`. "
    .. "A list of one may be written without braces.\n\n## Keys\n\n")
  add_table(out, schema.root)
  add(out, "\n## Constructors\n\nEach takes a table of fields and returns a plain table, which may also be written "
    .. "out: `{ kind = \"decoder\", … }`.\n")
  for _, made in ipairs(schema.constructors) do
    add(out, "\n### `%s {}`\n\n%s\n\n", made.name, made.doc)
    add_table(out, made.fields)
  end
  add_operations(out)
  return table.concat(out)
end

-- ---- The stubs, for LuaLS ----

local function stub(field) return schema.types[field.type].stub(field) end

-- A class and those of the tables in it, innermost first.
local function add_class(out, name, doc, fields, seen)
  for _, field in ipairs(fields) do
    local list = field.type == "any" and field.of or { field }
    for _, of in ipairs(list) do
      if of.type == "map" then of = of.of.of[2] end
      if of.type == "table" and of.class and not seen[of.class] then
        seen[of.class] = true
        add_class(out, of.class, of.doc or field.doc, of.fields, seen)
      end
    end
  end
  add(out, "\n---%s\n---@class %s\n", doc, name)
  for _, field in ipairs(fields) do
    local default = field.default ~= nil and value_text(field.default) or field.computed
    add(out, "---@field %s%s %s %s%s\n", field[1], field.required and "" or "?", stub(field), field.doc,
      default and " Default: " .. default .. "." or "")
  end
end

-- What a layer is written with: lua/ltrain/context.lua.
local CONTEXT = [[

---@class lt.context.linear
---@field bias? boolean
---@field init? number|string|table
---@field tp? "out"|"in"|false
---@field granule? integer
---@field residual? boolean The product is added to the residual stream.

---What a layer or a model of your own is written with.
---@class lt.context
---@field training boolean
local ctx = {}
---A parameter; an extent may be { number, granule }.
---@param name string
---@param dims (integer|integer[])[]
---@param options? { init?: number|string|table, tp?: "out"|"in"|integer, decay?: boolean, trainable?: boolean }
---@return lt.value
function ctx:param(name, dims, options) end
---A state that is no parameter.
---@param name string
---@param dims (integer|integer[])[]
---@param options? { init?: number|string|table }
---@return lt.value
function ctx:buffer(name, dims, options) end
---x times the transpose of NAME.weight, [out, in].
---@param name string
---@param x lt.value
---@param out integer
---@param options? lt.context.linear
---@return lt.value
function ctx:linear(name, x, out, options) end
---@param name string
---@param x lt.value
---@param options? { kind?: "rmsnorm"|"layernorm", eps?: number }
---@return lt.value
function ctx:norm(name, x, options) end
---@param x lt.value
---@param p number
---@return lt.value
function ctx:dropout(x, p) end
---A column of the step table.
---@param name "token"|"label"|"document"|"position"|"ordinal"|"weight"|"loss_scale"
---@return lt.value
function ctx:feed(name) end
---@param name string
---@param value lt.value
function ctx:output(name, value) end
---The mean loss of the step's labels.
---@param x lt.value
---@param w lt.value
---@param options? { chunk?: integer }
---@return lt.value
function ctx:cross_entropy(x, w, options) end
---@param name string
---@param fn function
function ctx:scope(name, fn, ...) end

---A symbolic value of the graph.
---@class lt.value
---@field shape (integer|string)[]
---@field dtype string
---@field width integer
---@operator add(lt.value|number): lt.value
---@operator sub(lt.value|number): lt.value
---@operator mul(lt.value|number): lt.value
---@operator div(lt.value|number): lt.value
---@operator unm: lt.value

---What the command line may say, name=value; it becomes what the default is.
---@generic T: number|string|boolean
---@param name string
---@param default T
---@param meaning? string
---@return T
function lt.arg(name, default, meaning) end

---Random numbers that are the same on every rank.
---@class lt.random
local random = {}
---@return number
function random:uniform(low, high) end
---@return number
function random:normal(mean, deviation) end
---@return integer
function random:int(low, high) end
---@param seed integer
---@param stream? string
---@return lt.random
function lt.random(seed, stream) end
]]

local attribute_types = { ["number or control"] = "number" }

local function add_operation(out, op)
  local names, list = inputs_of(op), {}
  add(out, "\n---%s\n", op.doc)
  for i, name in ipairs(names) do
    add(out, "---@param %s%s lt.value\n", name, i > op.least and name ~= "..." and "?" or "")
  end
  for i, a in ipairs(op.attributes) do
    list[i] = a.name .. (a.required and "" or "?") .. ": " .. (attribute_types[a.type] or a.type)
  end
  if #list > 0 and names[1] ~= "..." then
    add(out, "---@param attributes? { %s }\n", table.concat(list, ", "))
    names[#names + 1] = "attributes"
  end
  add(out, "---@return lt.value ...\nfunction lt.op.%s(%s) end\n", op.name, table.concat(names, ", "))
end

function reference.stubs()
  local out, seen, families = {}, {}, {}
  add(out, "-- lt.lua: stubs for editors (LuaLS): written by lua/reference.lua from the schema, not by hand.\n"
    .. "-- Point the editor's Lua.workspace.library at this folder; `---@type lt.recipe` before a table has its keys\n"
    .. "-- checked.\n---@meta\n\nlt = { op = {} }\n")
  for _, made in ipairs(schema.constructors) do
    local family = made.name:match "^(.*)%."
    if not families[family] then add(out, "%s = {}\n", family) end
    families[family] = true
  end
  for _, made in ipairs(schema.constructors) do
    add_class(out, made.name, made.doc, made.fields, seen)
    add(out, "---@param fields %s\n---@return %s\nfunction %s(fields) end\n", made.name, made.name, made.name)
  end
  add_class(out, "lt.recipe", "What a recipe returns.", schema.root, seen)
  add(out, "%s", CONTEXT)
  for _, op in ipairs(core.ops()) do add_operation(out, op) end
  return table.concat(out)
end

-- The files and what they must hold: { { path from the root, text }, … }.
function reference.files()
  return { { "recipes/REFERENCE.md", reference.page() }, { "lua/library/lt.lua", reference.stubs() } }
end

return reference
