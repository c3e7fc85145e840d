-- recipe.lua: every key a recipe may have: name, type, range, default, meaning; and the checks across keys.
-- The table a recipe returns goes through here after --set and before anything is built; what comes out is complete.
local core = require "ltrain.core"
local schema = require "ltrain.schema"
local nn = require "ltrain.nn"
local optim = require "ltrain.optim"
local lr = require "ltrain.lr"
local place = require "ltrain.place"

local recipe = {}

-- A learning rate: a number, a function of the step, or a curve of lt.lr.
schema.add_type("lr", function(value, field, path, faults)
  if type(value) == "number" then return schema.check(value, { "number", min = 0 }, path, faults) end
  return schema.check(value, { "kind", kinds = lr.schema, callable = true, meaning = field.meaning }, path, faults)
end)

-- An axis of the mesh: a number of ranks, or "auto".
schema.add_type("axis", function(value, _, path, faults)
  if value == "auto" then return value end
  return schema.check(value, { "integer", min = 1, max = 2 ^ 20 }, path, faults)
end)

schema.add_type("micro_batch", function(value, _, path, faults)
  if value == "auto" then return value end
  return schema.check(value, { "integer", min = 1 }, path, faults)
end)

-- Lengths by step: a number, or { { 0, length }, { step, length }, … }; becomes the latter.
schema.add_type("length", function(value, _, path, faults)
  if type(value) ~= "table" then
    return { { 0, schema.check(value, { "integer", min = 1 }, path, faults) } }
  end
  local out, before = {}, -1
  for i, pair in ipairs(value) do
    local at = path .. "[" .. i .. "]"
    if type(pair) ~= "table" then
      return schema.add(faults, at, "is no pair", { expected = "{ first step, length }", got = core.type(pair) })
    end
    local step, tokens = { "integer", min = 0, required = true }, { "integer", min = 1, required = true }
    local first = schema.check(pair[1], step, at .. "[1]", faults)
    local length = schema.check(pair[2], tokens, at .. "[2]", faults)
    if first and (i == 1 and first ~= 0 or first <= before) then
      schema.add(faults, at .. "[1]", "the steps of a length begin at 0 and grow", { got = tostring(first) })
    end
    out[i], before = { first, length }, first or before
  end
  if #out == 0 then schema.add(faults, path, "is empty", { expected = "{ { 0, length }, … }" }) end
  return out
end)

-- Placements of parameters on tp, by patterns of their names.
schema.add_type("place", function(value, _, path, faults)
  if type(value) ~= "table" then
    return schema.add(faults, path, "is no table", { expected = '{ ["a name *"] = … }', got = core.type(value) })
  end
  for _, pattern in ipairs(place.patterns(value)) do
    local at, entry = path .. "." .. tostring(pattern), value[pattern]
    if type(pattern) ~= "string" then
      schema.add(faults, at, "is no pattern of names", { expected = "text, with * for anything" })
    elseif place.read(entry) == nil then
      schema.add(faults, at, "is no placement", { expected = '"replicated" or { tp = dimension }',
        got = type(entry) == "string" and entry or core.type(entry) })
    end
  end
  return value
end)

-- What is recomputed: "none", "layers", or a table with a budget.
local checkpoint = {
  mode = { "string", choices = { "none", "layers" },
    meaning = 'the most that may be recomputed; default: "layers" where a budget or layers are given, else "none"' },
  layers = { "integer", min = 0, max = 2 ^ 31 - 1,
    meaning = "layers recomputed; default: as few as the budget needs, else all" },
  budget = { "size", default = 0, meaning = "bytes a rank may use; 0: no limit" },
}
schema.add_type("checkpoint", function(value, _, path, faults)
  if type(value) == "string" then value = { mode = value } end
  local out = schema.check(value, { "table", fields = checkpoint }, path, faults)
  if out and not out.mode then out.mode = (out.budget ~= 0 or out.layers) and "layers" or "none" end
  return out
end)

local axis = { "axis", meaning = 'ranks along this axis, or "auto"' }

local kinds = {
  model = { "kind", kinds = { decoder = nn.schema.decoder }, callable = true, required = true,
    meaning = "lt.nn.decoder {}, or function(ctx) that returns the loss" },
  optim = { "kind", kinds = optim.schema, required = true, meaning = "lt.optim.adamw {}" },
}

recipe.schema = {
  seed = { "integer", min = 0, default = 0, meaning = "of everything random" },
  dtype = { "string", choices = { "f32", "f64" }, default = "f32", meaning = "what is computed in" },
  model = kinds.model,
  optim = kinds.optim,
  data = { "table", required = true, meaning = "the texts", fields = {
    train = { "list", of = { "string" }, required = true, meaning = "patterns of the files to learn from" },
    eval = { "list", of = { "string" }, meaning = "patterns of held-out files" },
    hold_out = { "number", min = 0, below = 1, default = 0, meaning = "share of the training documents held out" },
    stretch = { "integer", min = 0, default = 0,
      meaning = "tokens of a document that are shuffled as one; 0: whole documents" },
    length = { "length", default = 512, meaning = "tokens a sequence; or { { first step, tokens }, … }" },
  } },
  train = { "table", default = {}, meaning = "the run", fields = {
    tokens = { "integer", min = 1, max = 2 ^ 31 - 1, default = 8192, meaning = "tokens a step, over all ranks" },
    steps = { "integer", min = 0, default = 1000, meaning = "steps of the run" },
    micro_batch = { "micro_batch", default = "auto", meaning = 'sequences a rank works on at once, or "auto"' },
    eval_every = { "integer", min = 0, default = 100, meaning = "steps between evaluations; 0: only at the end" },
    eval_tokens = { "integer", min = 1, default = 65536, meaning = "held-out tokens an evaluation reads at most" },
  } },
  layout = { "table", default = {}, meaning = "how it is spread over ranks", fields = {
    mesh = { "table", default = {}, meaning = "ranks along each axis",
      fields = { pp = axis, dp = axis, sp = axis, tp = axis, ep = axis } },
    order = { "list", of = { "string", choices = { "pp", "dp", "sp", "tp" } }, default = {},
      meaning = "axes, the one whose ranks are nearest first" },
    block = { "integer", min = 1, default = 128, meaning = "tokens a block that sequence parallelism deals" },
    place = { "place", default = {}, meaning = 'parameters on tp, by name: ["model.layers.*.mlp.*"] = "replicated", or '
      .. '{ tp = dimension }, over what their layers say' },
  } },
  checkpoint = { "checkpoint", default = {}, meaning = '"none", "layers", or a table: mode, layers, budget' },
  save = { "table", default = {}, meaning = "saves of the run", fields = {
    every = { "integer", min = 0, default = 200, meaning = "steps between saves; 0: only at the end" },
    keep = { "integer", min = 1, default = 3, meaning = "newest saves that are kept" },
  } },
}

-- ---- Checks across keys ----

local function decoder_fault(path, faults)
  return function(key, what, more) schema.add(faults, path .. "." .. key, what, more) end
end

local function check_across(r, faults)
  if type(r.model) == "table" then
    nn.check_decoder(r.model, decoder_fault("model", faults))
    if r.model.vocab < 256 then
      schema.add(faults, "model.vocab", "text is bytes", { expected = "at least 256", got = tostring(r.model.vocab) })
    end
  end
  if r.data.eval and r.data.hold_out > 0 then
    schema.add(faults, "data.hold_out", "held-out texts are given twice", { expected = "eval or hold_out" })
  end
end

-- All faults of a recipe, and its complete settings where there are none.
function recipe.check(given)
  local faults = {}
  if type(given) ~= "table" then
    schema.add(faults, "", "the recipe must return a table", { got = core.type(given) })
    return nil, faults
  end
  local settings = schema.fields(given, recipe.schema, "", faults)
  if #faults == 0 then check_across(settings, faults) end
  return settings, faults
end

-- One part of a recipe on its own, as scripts use it: lt.check(model, "model"). Raises the first fault.
function recipe.check_part(value, name)
  local faults = {}
  local field = recipe.schema[name]
  if not field then core.fail { what = "a recipe has no part '" .. tostring(name) .. "'" } end
  local out = schema.check(value, field, name, faults)
  if #faults == 0 and name == "model" and type(out) == "table" then
    nn.check_decoder(out, decoder_fault(name, faults))
  end
  schema.raise(faults)
  return out
end

return recipe
