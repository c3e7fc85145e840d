-- scale.lua: what scale.c trains: four layers of width 256 on bytes; its tokens are given, no text is read.
local rows = lt.arg("rows", 8, "sequences a step")
local length = lt.arg("length", 1024, "tokens of a sequence")
local quick = lt.arg("quick", false, "small sizes: everything runs, no figure means anything")

return {
  seed = 1,
  data = { train = { "nothing" }, length = length },
  model = lt.nn.decoder { vocab = 256, width = quick and 32 or 256, layers = quick and 2 or 4, heads = 4 },
  optim = lt.optim.adamw { lr = 1e-4, clip = 1 },
  train = { tokens = rows * length, steps = 1, micro_batch = rows },
}
