-- constructor_unused.lua: a constructor there is not, in the place of a function, and one whose value nobody takes.
local _ = lt.policy.platau {}
return {
  data = {
    train = "*.txt",
    length = 64,
  },
  model = lt.nn.decoder {
    vocab = 256, width = 32,
    layers = 2, heads = 4,
    ffn = lt.nn.swigloo,
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-3, warmup = 10 } },
  train = { tokens = 256, steps = 100 },
}
