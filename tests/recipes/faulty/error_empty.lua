-- error_empty.lua: an error that says nothing.
local width = lt.arg("width", 32, "of the stream")
if width > 16 then error("") end
return {
  data = {
    train = "*.txt",
    length = 64,
  },
  model = lt.nn.decoder {
    vocab = 256, width = width,
    layers = 2, heads = 4,
    ffn = lt.nn.swiglu { hidden = 48 },
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-3, warmup = 10 } },
  train = { tokens = 256, steps = 100 },
}
