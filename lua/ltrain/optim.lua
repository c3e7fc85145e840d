-- optim.lua: optimizers: constructors, and the update they add to a graph.
-- AdamW (Loshchilov & Hutter 2019, algorithm 2) after clipping by the global norm. The learning rate and the number of
-- the update are controls: they change between steps, the schedule does not.
local core = require "ltrain.core"
local construct = require "ltrain.construct"
local control = require "ltrain.control"
require "ltrain.lr"
local op = core.op

local optim = {}

local SMALLEST = 1.1754944e-38 -- normal float32: less would divide zero by zero

optim.adamw = construct { "lt.optim.adamw", doc = "AdamW, after clipping by the global norm.", fields = {
  { "lr", type = "any", required = true, of = {
      { type = "number", min = 0, max = 1e6 },
      { type = "made", by = { "lt.lr.constant", "lt.lr.cosine", "lt.lr.wsd" } },
      { type = "function" } },
    doc = "The learning rate: a number, a curve, or function(step) that returns it; steps count from 0." },
  { "beta1", type = "number", min = 0, below = 1, default = 0.9, doc = "Decay of the mean of gradients." },
  { "beta2", type = "number", min = 0, below = 1, default = 0.95, doc = "Decay of the mean of their squares." },
  { "eps", type = "number", min = SMALLEST, max = 1, default = 1e-8, doc = "Added to the root of the second mean." },
  { "weight_decay", type = "number", min = 0, max = 1e6, default = 0.1,
    doc = "Share of a matrix that an update takes away, times the learning rate." },
  { "clip", type = "number", min = 0, max = 1e30, default = 1,
    doc = "Largest norm of all gradients together; 0: any." },
  { "shard", type = "integer", min = 0, max = 3, default = 0,
    doc = "What the ranks of dp and sp share out: 1 moments, 2 gradients too, 3 parameters too." },
} }

-- The controls of a run that it has without declaring them; lr.factor multiplies what optim.lr says.
function optim.controls(spec)
  control.builtin("lr.factor", 1, 0, 1e6)
  control.builtin("optim.weight_decay", spec.weight_decay, 0, 1e6)
  control.builtin("optim.clip", spec.clip, 0, 1e30)
end

local GROUP = 32 -- sums added by one operation

-- One sum of many scalars, in a fixed order.
local function add_all(values)
  while #values > 1 do
    local sums = {}
    for first = 1, #values, GROUP do
      local last = math.min(first + GROUP - 1, #values)
      sums[#sums + 1] = first == last and values[first] or op.add_n(unpack(values, first, last))
    end
    values = sums
  end
  return values[1]
end

-- Add the update of every trainable parameter. Outputs: grad_norm, before clipping; update_scale, the factor of the
-- gradients: where it is no number, as a gradient or a loss is not finite, nothing changes.
-- Controls: lr, optim_t (from 1).
function optim.build(ctx, spec)
  local b = ctx.builder
  b:phase "update"
  b:where(spec.where or "")
  ctx:scope_as("optimizer", "", function()
    local params, gradients, squares = {}, {}, {}
    for _, p in ipairs(b:states "param") do
      if p.trainable then
        local g = b:gradient(p)
        params[#params + 1] = p
        gradients[#params], squares[#params] = g, op.sumsq(g)
      end
    end
    if #params == 0 then core.fail { what = "there is nothing to train: no parameter is trainable", key = "optim" } end
    local norm, scale = op.clip_scale(add_all(squares), b:loss_sum(), { clip = ctx:control("optim.clip", spec.clip) })
    ctx:output("grad_norm", norm)
    ctx:output("update_scale", scale)
    local lr, t = b:control("lr", 0), b:control("optim_t", 1)
    local decay = ctx:control("optim.weight_decay", spec.weight_decay)
    for i, p in ipairs(params) do
      local m = b:state { name = "adam_m/" .. p.name, role = "moment", owner = p }
      local v = b:state { name = "adam_v/" .. p.name, role = "moment", owner = p }
      op.adamw(b:read(p), b:read(m), b:read(v), gradients[i], scale, {
        lr = lr, t = t, beta1 = spec.beta1, beta2 = spec.beta2, eps = spec.eps,
        weight_decay = p.decay and decay or 0,
      })
    end
  end)
  b:phase "forward"
end

return optim
