-- several.lua: faults of many kinds, all told at once.
-- arguments: --check widht=64 --set train.steps=long --set save.evry=3
local k = lt.arg("width", 32, "of the stream")
return {
  data = {
    train = "*.txt",
    lenght = 64,
  },
  model = lt.nn.decoder {
    vocab = 256, width = k, norm = "rmsnrom",
    layers = 2, heads = 0,
    ffn = lt.nn.swiglu { hidden = "wide" },
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = -1, warmup = 10 } },
  train = { tokens = 256.5, steps = 100 },
}
