-- policy.lua: step policies: functions (stats, state) → controls, state that steer a run between its steps.
-- They are asked on every rank with the same numbers and must answer the same: what they remember is what they return.
local core = require "ltrain.core"
local schema = require "ltrain.schema"
local construct = require "ltrain.construct"
local control = require "ltrain.control"

local policy = {}

policy.step = construct { "lt.policy.step", doc = "A step policy of your own, under a name.", fields = {
  { "name", type = "string", required = true, doc = "What saves and messages call it." },
  { "step", type = "function", required = true,
    doc = "What is asked: function(stats, state) that returns controls and its state." },
} }

policy.plateau = construct { "lt.policy.plateau", doc = "Lowers a control when the held-out loss no longer falls.",
  fields = {
    { "name", type = "string", default = "plateau", doc = "What saves and messages call it." },
    { "control", type = "string", default = "lr.factor", doc = "The control." },
    { "factor", type = "number", min = 0, below = 1, default = 0.5, doc = "What it is multiplied with." },
    { "patience", type = "integer", min = 1, default = 2, unit = "evaluations",
      doc = "Evaluations in a row without a better loss, before it is." },
    { "margin", type = "number", min = 0, default = 0, unit = "nats", doc = "What counts as better." },
    { "floor", type = "number", min = 0, default = 0.01, doc = "The least it is set to." },
  } }

local function plateau(spec)
  return function(stats, state)
    state = state or { best = math.huge, waited = 0 }
    if not stats.eval_loss then return nil, state end
    if stats.eval_loss < state.best - spec.margin then return nil, { best = stats.eval_loss, waited = 0 } end
    local waited = state.waited + 1
    if waited < spec.patience then return nil, { best = state.best, waited = waited } end
    local now = stats.controls[spec.control]
    if not now then
      core.fail { what = "there is no control '" .. spec.control .. "'", key = spec.name, where = spec.where }
    end
    return { [spec.control] = math.max(spec.floor, now * spec.factor) }, { best = state.best, waited = 0 }
  end
end

policy.hide = construct { "lt.policy.hide",
  doc = "Lets hops of an exchange start further ahead while steps wait for transfers, and less far when they do " ..
    "not, up to layout.max_depth: with that at 1 it has nothing to move.",
  fields = {
    { "share", type = "number", min = 0, max = 1, default = 0.01,
      doc = "Share of a step's time that may be spent waiting for transfers." },
    { "calm", type = "integer", min = 1, default = 20, unit = "steps",
      doc = "Steps in a row with less than a quarter of that, before a hop fewer is tried." },
  } }

-- The depth goes up at once, and down one at a time; where less made the run wait, that is not tried again.
local function hide(spec)
  return function(times, state)
    local now, name = times.controls["layout.depth"], "layout.depth"
    local _, most = control.range(name)
    state = state or { calm = 0, least = 1 }
    local share, least = times.waited / times.seconds, state.least
    if not now then return nil, state end
    if share > spec.share then
      if state.tried == now then least = math.min(now + 1, most) end
      return now < most and { [name] = now + 1 } or nil, { calm = 0, least = least }
    end
    if share > spec.share / 4 or now <= least then return nil, { calm = 0, least = least } end
    if state.calm + 1 < spec.calm then return nil, { calm = state.calm + 1, least = least, tried = state.tried } end
    return { [name] = now - 1 }, { calm = 0, least = least, tried = now - 1 }
  end
end

-- ---- The keys of a recipe ----

local made = { type = "made", by = { "lt.policy.step", "lt.policy.plateau" } }

policy.fields = {
  { "on_step", type = "any", of = { { type = "function" }, made,
      { type = "list", of = { type = "any", of = { { type = "function" }, made } } } },
    doc = "Step policies: function(stats, state) that returns controls and its state, or a list of them." },
  { "on_speed", type = "any", of = { { type = "function" }, { type = "made", by = { "lt.policy.hide" } } },
    doc = "A policy that sees times: function(times, state) that returns speed controls and its state." },
}

-- ---- What a recipe has ----

local function entry(x, name, kind)
  if type(x) == "function" then return { name = name, kind = kind, fn = x, where = core.defined(x) } end
  local fn = x.kind == "plateau" and plateau(x) or x.step
  return { name = x.name, kind = kind, fn = fn, where = x.kind == "step" and core.defined(fn) or x.where or "" }
end

-- collect(settings) → { { name, kind = "step" | "speed", fn, where } }, in the order they are asked
function policy.collect(settings)
  local list, given = {}, settings.on_step
  if type(given) == "function" or type(given) == "table" and given.kind then
    list[1] = entry(given, "on_step", "step")
  else
    for i, x in ipairs(given or {}) do list[i] = entry(x, "on_step[" .. i .. "]", "step") end
  end
  local speed = settings.on_speed
  if type(speed) == "table" then
    list[#list + 1] = { name = "on_speed", kind = "speed", fn = hide(speed), where = speed.where or "" }
  elseif speed then
    list[#list + 1] = entry(speed, "on_speed", "speed")
  end
  local seen = {}
  for _, p in ipairs(list) do
    if seen[p.name] then
      core.fail { what = "two policies have one name", key = p.name, where = p.where, got = seen[p.name] }
    end
    seen[p.name] = p.where
  end
  return list
end

-- ---- Plan functions: those in the place of a number that the plan needs ----

-- choose(fn, key, facts, least, most) → an integer; nil where no function stands.
function policy.choose(fn, key, facts, least, most)
  if type(fn) ~= "function" then return nil end
  local x = fn(facts)
  if type(x) ~= "number" or x % 1 ~= 0 or x < least or x > most then
    core.fail { what = "a plan function returns an integer", key = key, where = core.defined(fn),
      expected = least .. " to " .. most, got = schema.show(x) }
  end
  return x
end

-- Ask one; controls must be a table or nothing.
function policy.ask(p, stats, state)
  local controls, kept = p.fn(stats, state)
  if controls ~= nil and type(controls) ~= "table" then
    core.fail { what = "a policy returns a table of controls, or nil, and its state", key = p.name, where = p.where,
      expected = 'return { ["lr.factor"] = 0.5 }, state', got = schema.show(controls) }
  end
  return controls, kept
end

return policy
