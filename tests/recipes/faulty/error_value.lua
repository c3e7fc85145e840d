-- error_value.lua: an error whose text is empty, without the line that error adds.
local silent = setmetatable({}, { __tostring = function() return "" end })
error(silent)
