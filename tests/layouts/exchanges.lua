-- exchanges.lua: the decoders that exchanges are tried with, for the specs of this folder: kv heads 1, 2, 3 and 8, each
-- with a window in a layer, packed documents and uneven lengths (decoders.lua).
local decoders = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/decoders.lua")

local exchanges = { decoders = decoders, models = decoders.models }

for _, heads in ipairs { { 2, 1 }, { 6, 2 }, { 3, 3 }, { 8, 8 } } do
  local name = heads[1] .. "/" .. heads[2] .. " heads, window in a layer"
  exchanges.models[#exchanges.models + 1] = { name, decoders.model {
    heads = heads[1], kv_heads = heads[2], head_dim = 4, attention = { window = { 5, false }, block = 3 } } }
end

return exchanges
