-- lr_table.lua: a learning rate that is none, and no address in what is said of it.
local function lr(step)
  return { step }
end
return {
  data = { train = "*.lua", length = 64 },
  model = lt.nn.decoder { width = 32, layers = 2, heads = 4 },
  optim = lt.optim.adamw { lr = lr },
  train = { tokens = 256, steps = 100 },
}
