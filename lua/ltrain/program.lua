-- program.lua: lt.program: compile and run any graph from a script, layers and losses written as in a recipe.
-- lt.program { dtype = "f32", ranks = 1, mesh = { dp = 1 }, order = { "tp" }, shard = 0, place = {}, seed = 0,
--   units = 1, checkpoint = "none", tokens =, sequences =, length =, block = 128, partition = "balanced",
--   max_share = 1.05, exchange = "all_gather", inner =, max_depth = 1, depth =, backward = true, generate = nil,
--   world = false, build = function(ctx) … end }
--   → a program: step, bind, output, read …
-- All ranks are walked in this process; with `world` they are those of the job that mpirun started: all of them make
-- the program, take its steps and ask for its outputs.
local core = require "ltrain.core"
local context = require "ltrain.context"

return function(spec)
  if type(spec) ~= "table" then core.fail { what = "lt.program takes a table", got = type(spec) } end
  local given, build = {}, spec.build
  for key, value in pairs(spec) do given[key] = value end
  if type(build) ~= "function" then core.fail { what = "lt.program needs a function", key = "build" } end
  given.place, given.generate, given.exchange = nil, nil, nil
  if given.world then core.comm.world() end
  function given.build(builder)
    local ctx = context.new(builder, { training = spec.backward, place = spec.place,
      generate = spec.generate, exchange = spec.exchange })
    build(ctx)
    ctx.places:check()
  end
  return core.program(given)
end
