-- mesh_pp.lua: pipelines are not there yet, and not ignored.
return {
  seed = 1,
  data = { train = "*.lua", length = 64 },
  model = lt.nn.decoder { width = 16, layers = 2, heads = 2 },
  optim = lt.optim.adamw { lr = 1e-3 },
  layout = {
    mesh = {
      pp = 2,
    },
  },
  train = { tokens = 256, steps = 2 },
}
