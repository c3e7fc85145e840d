-- construct.lua: constructors of recipes: functions that turn a table of fields into { kind =, where =, the fields }.
-- Nothing is checked here: --set may still change a field. `where` is the recipe line that called.
local core = require "ltrain.core"
local schema = require "ltrain.schema"
require "ltrain.types"

-- construct { "lt.nn.decoder", doc = "A sentence.", fields = { … }, finish = function(made, path, fault) }
--   → function(fields)
-- Registered in the schema under its name; a field of type "made" takes what it makes.
return function(spec)
  local name, kind = spec[1], spec[1]:match "[^%.]+$"
  local made = { name = name, kind = kind, doc = spec.doc, fields = spec.fields, finish = spec.finish }
  schema.constructors[#schema.constructors + 1] = made
  schema.constructors[name] = made
  return function(fields)
    if type(fields) ~= "table" then
      core.fail { what = name .. " takes a table of fields", expected = name .. " { … }", got = core.type(fields) }
    end
    local out = {}
    for key, value in pairs(fields) do out[key] = value end
    out.kind, out.where = kind, core.where()
    return out
  end
end
