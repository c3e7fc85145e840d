-- lr.lua: the learning rate as a function of the step: constructors of plain tables, and their value at a step.
-- The curve is a control: it is asked between steps and never compiled in. Steps count from 0; warming up, step s of w
-- has (s + 1) / w of the peak, so that the first step already learns.
local core = require "ltrain.core"
local construct = require "ltrain.construct"
local schema = require "ltrain.schema"

local lr = {}

local peak = { "peak", type = "number", min = 0, max = 1e6, required = true, doc = "The largest rate." }
local warmup = { "warmup", type = "integer", min = 0, default = 0, unit = "steps",
  doc = "Steps in which the rate climbs to the peak." }
local floor = { "floor", type = "number", min = 0, max = 1, default = 0.1,
  doc = "The last rate, as a share of the peak." }
local curve = { "steps", type = "integer", min = 1, computed = "train.steps", unit = "steps",
  doc = "Length of the curve." }

lr.constant = construct { "lt.lr.constant", doc = "The peak, once it is reached.", fields = { peak, warmup } }
lr.cosine = construct { "lt.lr.cosine", doc = "Half a cosine from the peak to its floor.",
  fields = { peak, warmup, floor, curve } }
lr.wsd = construct { "lt.lr.wsd", doc = "Warm up, stay, descend on a straight line.",
  fields = { peak, warmup, floor, curve,
    { "decay", type = "integer", min = 0, computed = "a fifth of steps", unit = "steps",
      doc = "Steps of the final descent." } } }

local shapes = {}

function shapes.constant() return 1 end

-- Half a cosine from 1 to floor (Loshchilov & Hutter 2017, equation 5).
function shapes.cosine(spec, step, steps)
  local span = math.max(1, steps - spec.warmup)
  local x = math.min(1, (step - spec.warmup) / span)
  return spec.floor + (1 - spec.floor) * 0.5 * (1 + math.cos(math.pi * x))
end

-- Warm up, stay, descend on a straight line (Hu et al. 2024, MiniCPM, section 4).
function shapes.wsd(spec, step, steps)
  local decay = spec.decay or math.floor(steps / 5)
  local left = steps - step
  if left >= decay then return 1 end
  return spec.floor + (1 - spec.floor) * math.max(0, left) / decay
end

-- The rate of step `step` (from 0) of `steps`.
function lr.at(spec, step, steps)
  if type(spec) == "number" then return spec end
  if type(spec) == "function" then
    local x = spec(step)
    if type(x) ~= "number" or x ~= x or x < 0 or x == math.huge then
      core.fail { what = string.format("the learning rate of step %d is no rate", step), key = "optim.lr",
        expected = "a number, not negative", got = schema.show(x) }
    end
    return x
  end
  if step < spec.warmup then return spec.peak * (step + 1) / spec.warmup end
  return spec.peak * shapes[spec.kind](spec, step, spec.steps or steps)
end

return lr
