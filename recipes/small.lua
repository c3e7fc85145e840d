-- small.lua: a first lesson: a small decoder that learns the bytes of C headers and licences, on a laptop, in minutes.
local width = lt.arg("width", 128, "width of the residual stream")
local layers = lt.arg("layers", 3, "decoder layers")

return {
  seed = 1,
  data = {
    train = { "/usr/include/*.h", "/usr/include/linux/**/*.h", "/usr/share/common-licenses/*" },
    hold_out = 0.05,
    length = 256,
  },
  model = lt.nn.decoder {
    vocab = 256, width = width, layers = layers, heads = 4, kv_heads = 2,
    ffn = lt.nn.swiglu {},
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 3e-3, warmup = 50 }, clip = 1 },
  train = { tokens = 4096, steps = 600, eval_every = 100, eval_tokens = 65536 },
  save = { every = 200, keep = 2 },
}
