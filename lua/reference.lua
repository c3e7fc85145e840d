-- reference.lua: writes recipes/REFERENCE.md and lua/library/lt.lua anew, after the schema or the operations changed.
-- ltrain-lua --script lua/reference.lua [ROOT]; the root is the folder above this one.
local reference = require "ltrain.reference"

local root = ... or (arg[0]:match "^(.*)/lua/[^/]*$" or ".")
for _, file in ipairs(reference.files()) do
  local path = root .. "/" .. file[1]
  local f = assert(io.open(path, "wb"))
  f:write(file[2])
  f:close()
  print(path)
end
