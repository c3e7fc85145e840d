-- argument_key.lua: a key given as an argument.
-- arguments: --check train.steps=3
local k = lt.arg("width", 32, "of the stream")
return {
  data = {
    train = "*.txt",
    length = 64,
  },
  model = lt.nn.decoder {
    vocab = 256, width = k,
    layers = 2, heads = 4,
    ffn = lt.nn.swiglu { hidden = 48 },
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-3, warmup = 10 } },
  train = { tokens = 256, steps = 100 },
}
