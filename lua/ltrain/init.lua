-- init.lua: the library as Lua sees it: `local lt = require "ltrain"` in scripts, the global `lt` in both.
-- The C half is ltrain.core; what it has (op, random, tensor …) is here too, beside the Lua half.
local core = require "ltrain.core"
local policy = require "ltrain.policy"

local lt = {
  nn = require "ltrain.nn",
  optim = require "ltrain.optim",
  lr = require "ltrain.lr",
  control = require("ltrain.control").control,
  policy = { step = policy.step, plateau = policy.plateau, hide = policy.hide },
  check = require("ltrain.recipe").check_part,
}
for name, value in pairs(core) do lt[name] = value end
if core.program then
  lt.program = require "ltrain.program"
  lt.comm = require "ltrain.comm"
  lt.arg = function() error("lt.arg is for recipes, and they run without --script", 2) end
end
return lt
