-- own_layer.lua: a lesson: a feed-forward layer of your own, written from operations, in place of a built-in one.
-- A layer is a function (x, ctx) → y of symbolic values: it runs once, while the recipe is compiled, and never during a
-- step. Write what one device would compute for all tokens: gradients, the parts of every rank and the collectives
-- between them follow from the operations. Try it: ltrain-lua recipes/own_layer.lua experts=4 --steps 50
local op = lt.op

local experts = lt.arg("experts", 4, "small feed-forward layers that are mixed")
local share = lt.arg("share", 4, "width inside, all experts together, in widths of the stream")

-- A soft mixture: every token goes through all experts, each a slice of one hidden layer, and a softmax over a small
-- projection says how much each of them counts. Activation: the square of a ReLU (So et al. 2021, Primer).
-- x is [tokens, width]; x.width is a number now, the number of tokens is known only to a step.
local function soft_mixture(x, ctx)
  local inside = math.floor(share * x.width / experts) -- hidden width of one expert
  local hidden = inside * experts

  -- ctx:param(name, shape, options) makes a parameter. Saves call it "model.layers.N.mlp." and its name.
  -- tp says which side tensor parallelism may cut; { hidden, inside }: never through the middle of an expert.
  local up = ctx:param("up_proj.weight", { { hidden, inside }, x.width }, { tp = "out" })
  local down = ctx:param("down_proj.weight", { x.width, { hidden, inside } },
    { tp = "in", init = ctx.std * ctx.residual_scale })

  -- ctx:linear(name, x, out) is the short way to write "a weight and a product". Weights start small, so at first the
  -- softmax is even: [tokens, experts], each 1 / experts.
  local mix = op.softmax(ctx:linear("mix_proj", x, experts))

  local h = op.square(op.relu(op.matmul(x, up, { trans_b = true }))) -- [tokens, hidden]

  -- To weigh slices, make the experts a dimension of their own: [tokens, experts, inside] times [tokens, experts, 1].
  -- A dimension of 1 is repeated as needed; shapes that do not fit are an error at this line.
  h = op.split_dim(h, { dim = 1, inner = inside }) * op.split_dim(mix, { dim = 1, inner = 1 })
  h = op.merge_dims(h, { dim = 1 })

  return op.matmul(h, down, { trans_b = true }) -- [tokens, width]: added to the residual stream by the decoder
end

-- A learning rate may be a function as well: called between steps with the number of the step, from 0. It must be a
-- function of that number alone, so that a run that is resumed has the same rates.
local function warm_then_root(step)
  local peak, warmup = 3e-3, 40
  if step < warmup then return peak * (step + 1) / warmup end
  return peak * math.sqrt(warmup / (step + 1))
end

return {
  seed = 1,
  data = {
    train = { "/usr/include/*.h", "/usr/include/linux/**/*.h", "/usr/share/common-licenses/*" },
    hold_out = 0.05,
    length = 256,
  },
  model = lt.nn.decoder { vocab = 256, width = 128, layers = 3, heads = 4, kv_heads = 2, ffn = soft_mixture },
  optim = lt.optim.adamw { lr = warm_then_root },
  train = { tokens = 4096, steps = 300, micro_batch = 16, eval_every = 100 },
}
