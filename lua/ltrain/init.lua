-- init.lua: the library as scripts see it: `local lt = require "ltrain"`, or the global `lt`.
-- The C half is ltrain.core; everything here is plain tables and functions on top of it.
local core = require "ltrain.core"

local lt = {}
for name, value in pairs(core) do lt[name] = value end
return lt
