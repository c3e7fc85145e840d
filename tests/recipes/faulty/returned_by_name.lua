-- returned_by_name.lua: a recipe that returns a local: no key has a line.
local recipe = {
  data = { train = "*.txt", lenght = 64 },
  model = lt.nn.decoder { layers = 2, heads = 4, width = 32 },
  optim = lt.optim.adamw { lr = 1e-3 },
}
return recipe
