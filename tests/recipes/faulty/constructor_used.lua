-- constructor_used.lua: more is done with what a constructor there is not would have made.
local rate = lt.lr.cosin { peak = 1e-3, warmup = 10 }
return {
  data = {
    train = "*.txt",
    length = 64,
  },
  model = lt.nn.decoder {
    vocab = 256, width = 32,
    layers = 2, heads = 4,
    ffn = lt.nn.swiglu { hidden = 48 },
  },
  optim = lt.optim.adamw { lr = rate * 2 },
  train = { tokens = 256, steps = 100 },
}
