-- sp.lua: what sp.c trains: few layers of width 256 and 4 heads on one long sequence of bytes; its tokens are given.
local length = lt.arg("length", 8192, "tokens of the sequence")
local layers = lt.arg("layers", 2, "layers")
local exchange = lt.arg("exchange", "ring", "of all layers")
local quick = lt.arg("quick", false, "small sizes: everything runs, no figure means anything")

return {
  seed = 1,
  data = { train = { "nothing" }, length = length },
  model = lt.nn.decoder { vocab = 256, width = quick and 32 or 256, layers = layers, heads = 4 },
  layout = { exchange = exchange },
  optim = lt.optim.adamw { lr = 1e-4, clip = 1 },
  train = { tokens = length, steps = 1 },
}
