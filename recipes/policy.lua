-- policy.lua: a lesson: a step policy. When the held-out loss no longer falls, the learning rate is halved. A policy is
-- asked between steps; it remembers what it returns, and nothing else: what it has seen before reaches it as `state`.
-- Try it: ltrain-lua recipes/policy.lua patience=1
local patience = lt.arg("patience", 2, "evaluations without a better loss before the rate falls")

-- Numbers that may change while the run goes on are controls: a name, a first value, a range. lr.factor, the factor of
-- the learning rate, is there without being declared; this one is read by the model below.
local noise = lt.control {
  name = "noise", default = 0.1, range = { 0, 0.5 }, doc = "Dropout of the feed-forward layers.",
}

-- stats says how the last step went: step, loss, grad_norm, lr, tokens, applied, the controls as they are, and
-- eval_loss where the held-out text was read just now. No clock and no memory: what a run becomes must not depend on
-- the machine.
local function halve_on_plateau(stats, state)
  state = state or { best = math.huge, waited = 0 }
  if not stats.eval_loss then return nil, state end -- nothing to change; remember the same
  if stats.eval_loss < state.best then return nil, { best = stats.eval_loss, waited = 0 } end
  if state.waited + 1 < patience then return nil, { best = state.best, waited = state.waited + 1 } end
  return { ["lr.factor"] = stats.controls["lr.factor"] / 2 }, { best = state.best, waited = 0 }
end

-- A second one: less noise the smaller the loss is. Policies are asked in the order of the list.
local function less_noise(stats) return { noise = math.min(0.1, stats.loss / 60) } end

local function feed_forward(x, ctx)
  local h = lt.op.gelu(ctx:linear("up_proj", x, 4 * x.width))
  return ctx:dropout(ctx:linear("down_proj", h, x.width, { tp = "in", residual = true }), ctx:control(noise))
end

return {
  seed = 1,
  data = {
    train = { "/usr/include/*.h", "/usr/share/common-licenses/*" },
    hold_out = 0.05, length = 128, stretch = 128,
  },
  model = lt.nn.decoder { width = 64, layers = 2, heads = 4, ffn = feed_forward },
  optim = lt.optim.adamw { lr = 3e-3 },
  train = { tokens = 2048, steps = 400, eval_every = 20, eval_tokens = 8192 },
  on_step = {
    halve_on_plateau, -- or the same ready made: lt.policy.plateau { patience = 2 }
    lt.policy.step { name = "less noise", step = less_noise },
  },
}
