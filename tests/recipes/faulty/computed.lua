-- computed.lua: a table that is made elsewhere: the nearest key that is written is named.
local layers = { layers = 2, heads = 4,
  width = 32, widht = 48 }
local model = lt.nn.decoder(layers)

return {
  data = { train = "*.txt" },
  model = model,
  optim = lt.optim.adamw { lr = 1e-3 },
}
