-- construct.lua: constructors of recipes: functions that turn a table of fields into { kind =, where =, the fields }.
-- Nothing is checked here: --set may still change a field. `where` is the recipe line that called.
local core = require "ltrain.core"

-- construct("decoder", "lt.nn.decoder") → function(fields)
return function(kind, name)
  return function(fields)
    if type(fields) ~= "table" then
      core.fail { what = name .. " takes a table of fields", expected = name .. " { … }", got = core.type(fields) }
    end
    local made = {}
    for key, value in pairs(fields) do made[key] = value end
    made.kind, made.where = kind, core.where()
    return made
  end
end
