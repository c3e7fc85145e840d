-- load.lua: a recipe from file to settings: its arguments, what it returns, --set, the checks; and what builds from it.
-- Runs in the recipe's state with the library's own environment; the recipe itself runs in the sandbox's.
local walls = require "ltrain.walls"
local environment = require "ltrain.sandbox"
local arguments = require "ltrain.arguments"
local recipe = require "ltrain.recipe"
local origin = require "ltrain.origin"
local set = require "ltrain.set"
local banner = require "ltrain.banner"
local context = require "ltrain.context"
local nn = require "ltrain.nn"
local optim = require "ltrain.optim"
local lr = require "ltrain.lr"
local control = require "ltrain.control"
local policy = require "ltrain.policy"
local unknown = require "ltrain.unknown"

local load = {}
local settings, from, policies

-- ---- Reading ----

local USAGE = 2

-- In the order of their places: the command line's, then by line, then what has neither.
local function in_order(faults)
  for i, fault in ipairs(faults) do
    local line = fault.where:match ":(%d+)$"
    fault.order = fault.where:find "^argument " and -1 or fault.where:find "^%-%-set " and 2 ^ 40 or tonumber(line) or 0
    fault.index = i
  end
  table.sort(faults, function(a, b)
    if a.order ~= b.order then return a.order < b.order end
    return a.index < b.index
  end)
  return faults
end

-- open(path, { "name=value" }, { "a.b=c" }, text of the recipe if it is no file, fed) → settings, all faults
function load.open(path, args, sets, text, fed)
  arguments.given(args)
  local chunk, source = walls.load_module(path, environment, text)
  if not chunk then
    return {}, { { what = "there is no recipe of this name", where = path, code = USAGE } }
  end
  unknown.begin()
  local given = chunk()
  local faults, written = arguments.faults(), {}
  if type(given) == "table" then given, written = set.apply(given, sets, faults) end
  from = origin.new(path, source, given, written)
  local checked, wrong = recipe.check(given, fed)
  for _, fault in ipairs(wrong) do
    if not fault.where then -- else it is one of those below
      from:place(fault)
      local set_to = fault.where:match "^%-%-set ([^=%.]+)="
      if set_to and set_to == fault.key and not fault.hint then fault.hint = arguments.hint(set_to) end
      faults[#faults + 1] = fault
    end
  end
  for _, fault in ipairs(unknown.finish()) do faults[#faults + 1] = fault end
  settings = checked
  if #faults == 0 then
    optim.controls(settings.optim)
    nn.controls(settings.model)
    if settings.layout.max_depth > 1 then
      control.builtin("layout.depth", settings.layout.depth, 1, settings.layout.max_depth, "speed")
    end
    policies = policy.collect(settings)
  end
  return checked, in_order(faults)
end

-- place(fault): where a key is written that a later pass finds fault with, and what is to be said of that.
function load.place(key)
  local fault = { key = key }
  from:place(fault)
  return fault.where
end

-- ---- Building and asking ----

function load.build(builder)
  local ctx = context.new(builder, { training = true, recipe = true, place = settings.layout.place,
    exchange = settings.layout.exchange })
  nn.build(ctx, settings.model)
  ctx.places:check()
  optim.build(ctx, settings.optim)
end

function load.build_eval(builder)
  local ctx = context.new(builder, { training = false, recipe = true, place = settings.layout.place,
    exchange = settings.layout.exchange })
  nn.build(ctx, settings.model)
  ctx:token_losses()
end

-- generation(reach, chunk): how far build_generate's queries look back, and how many tokens a step has at most.
local generation
function load.generation(reach, chunk) generation = { reach = reach, chunk = chunk } end

function load.build_generate(builder)
  local ctx = context.new(builder, { training = false, recipe = true, place = settings.layout.place,
    exchange = settings.layout.exchange,
    generate = generation })
  nn.build_generate(ctx, settings.model)
end

function load.lr(step) return lr.at(settings.optim.lr, step, settings.train.steps) end

-- What steers the run: policies and controls, as C lists them; and the answer of policy i.
function load.steering() return policies, control.list() end
function load.ask(i, stats, state) return policy.ask(policies[i], stats, state) end

-- What functions in the places of train.micro_batch and checkpoint.layers choose, nil where there is none.
function load.plan(facts)
  local model, layers = settings.model, 2 ^ 31 - 1
  if type(model) == "table" then
    layers = model.layers
    facts.layers, facts.width = layers, model.width
  end
  return policy.choose(settings.train.micro_batch, "train.micro_batch", facts, 1, facts.sequences),
    policy.choose(settings.checkpoint.layers, "checkpoint.layers", facts, 0, layers)
end

-- ---- Showing ----

-- All of them with their origins, for programs.
function load.rows() return banner.rows(settings, from) end

function load.has_argument(name) return arguments.has(name) end

-- "key = value" a line: what ranks compare and the folder of the run keeps.
function load.settings_text() return banner.plain(settings) end

-- The table of settings with their origins: all of them, or those that are not defaults.
function load.banner(all) return banner.text(settings, from, arguments.list(), all) end

return load
