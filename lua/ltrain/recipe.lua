-- recipe.lua: every key a recipe may have, and the checks across keys; what constructors take is in their own files.
-- The table a recipe returns goes through here after --set and before anything is built; what comes out is complete.
-- How a key is added: a field in one of these lists, as the head of schema.lua says; then
-- `ltrain-lua --script lua/reference.lua` writes the page and the stubs anew. C reads it in host/script/recipe.c.
local core = require "ltrain.core"
local schema = require "ltrain.schema"
require "ltrain.types"
require "ltrain.nn"
require "ltrain.optim"
local policy = require "ltrain.policy"

local recipe = {}

local MOST = 2 ^ 31 - 1

-- ---- data ----

-- A number of tokens, or lengths by step; becomes the latter.
local function finish_length(value, _, fault)
  if type(value) ~= "table" then return { { 0, value } } end
  if #value == 0 then fault("", "is empty", { expected = "{ { 0, length }, … }" }) end
  for i, pair in ipairs(value) do
    if i == 1 and pair[1] ~= 0 or i > 1 and pair[1] <= value[i - 1][1] then
      fault("[" .. i .. "][1]", i == 1 and "the first length is for step 0" or "the steps of lengths must grow",
        { expected = i == 1 and "0" or "above " .. value[i - 1][1], got = tostring(pair[1]) })
    end
  end
  return value
end

local length = { type = "integer", min = 1, max = MOST, name = "length" }

local data = {
  { "train", type = "list", of = { type = "string" }, required = true,
    doc = "Patterns of the files to learn from: `*`, `?`, `[…]`, and `**` for any folders; from the recipe's folder." },
  { "eval", type = "list", of = { type = "string" }, doc = "Patterns of held-out files; not together with hold_out." },
  { "hold_out", type = "number", min = 0, below = 1, default = 0,
    doc = "Share of the training documents held out, drawn document by document: of few it may be far from it." },
  { "stretch", type = "integer", min = 0, default = 0, unit = "tokens",
    doc = "Tokens of a document that are shuffled as one; 0: whole documents." },
  { "length", type = "any", default = 512, unit = "tokens", finish = finish_length, of = {
      length,
      { type = "list", of = { type = "tuple", of = { { type = "integer", min = 0, name = "first step" }, length } } } },
    doc = "Tokens a sequence; or a list of { first step, length }, ascending from step 0." },
  { "look_ahead", type = "integer", min = 0, max = 64, default = 2, unit = "steps",
    doc = "Steps whose text is read while another runs; 0: read when it is needed." },
}

local function finish_data(value, _, fault)
  if value.eval and value.hold_out > 0 then
    fault(".hold_out", "held-out texts are given twice", { expected = "eval or hold_out",
      hint = "with data.eval it is 0: --set data.hold_out=0" })
  end
  if #value.train == 0 then fault(".train", "is empty", { expected = "a pattern of files" }) end
  return value
end

-- ---- train, save, layout, checkpoint ----

local train = {
  { "tokens", type = "integer", min = 1, max = MOST, default = 8192, unit = "tokens",
    doc = "Tokens a step, over all ranks." },
  { "steps", type = "integer", min = 0, default = 1000, unit = "steps", doc = "Length of the run." },
  { "micro_batch", type = "any", default = "auto", unit = "sequences", of = {
      { type = "integer", min = 1, max = MOST }, { type = "string", choices = { "auto" } }, { type = "function" } },
    doc = "Sequences a rank works on at once; \"auto\": as many as the plan finds best; " ..
      "or function(facts) that says." },
  { "bad_steps", type = "integer", min = 1, max = MOST, default = 10, unit = "steps",
    doc = "Steps in a row whose loss or gradient is not finite, after which the run saves and ends." },
  { "trace", type = "integer", min = 0, default = 0, unit = "step",
    doc = "The step whose kernels and transfers are written to trace.json in the run's folder; 0: none." },
  { "eval_every", type = "integer", min = 0, default = 100, unit = "steps",
    doc = "Steps between evaluations; 0: only at the end." },
  { "eval_tokens", type = "integer", min = 1, default = 65536, unit = "tokens",
    doc = "Held-out tokens an evaluation reads at most." },
  { "eval_length", type = "integer", min = 1, max = MOST, computed = "the longest of data.length", unit = "tokens",
    doc = "Tokens a sequence of an evaluation, the same at every step." },
}

local save = {
  { "every", type = "integer", min = 0, default = 200, unit = "steps",
    doc = "Steps between saves; 0: only at the end." },
  { "keep", type = "integer", min = 1, default = 3, unit = "saves", doc = "Newest saves that are kept." },
}

local function axis(name, doc, computed)
  return { name, type = "any", unit = "ranks", doc = doc, computed = computed or "1", of = {
    { type = "integer", min = 1, max = 2 ^ 20 }, { type = "string", choices = { "auto" } } } }
end

local function finish_order(value, _, fault)
  local seen = {}
  for i, name in ipairs(value) do
    if seen[name] then fault("[" .. i .. "]", "is named before", { expected = "every axis once", got = name }) end
    seen[name] = true
  end
  return value
end

-- Hops under way are at most max_depth; an exchange of two levels needs an inner part of sp.
local function finish_layout(value, _, fault)
  local two
  for _, name in ipairs(type(value.exchange) == "table" and value.exchange or { value.exchange }) do
    two = two or name == "two_level" or name == "two_level_ulysses"
    two = two or name == "auto" and (value.machine.nodes or value.machine.per_node)
  end
  for _, x in ipairs { { "pp", "pipelines" }, { "ep", "experts" } } do
    local ranks = value.mesh[x[1]] or 1
    if ranks ~= 1 then
      fault(".mesh." .. x[1], x[2] .. " are not there yet", { expected = "1", got = tostring(ranks) })
    end
  end
  value.inner = value.inner or two and "auto" or nil
  value.depth = value.depth or value.max_depth
  if value.depth > value.max_depth then
    fault(".depth", "is more than layout.max_depth",
      { expected = "at most " .. value.max_depth, got = tostring(value.depth) })
  end
  return value
end

local exchange = { type = "string", name = "exchange", choices = { "auto", "all_gather", "ring", "direct", "two_level",
  "ulysses", "two_level_ulysses" } }

local layout = {
  { "mesh", type = "table", default = {}, class = "lt.recipe.mesh",
    doc = "Ranks along each axis; \"auto\" takes what the others leave; where none is \"auto\", dp does.", fields = {
      axis("pp", "Pipeline: ranks that hold different layers. Not there yet: 1."),
      axis("dp", "Data: ranks that read different sequences.", "what the others leave"),
      axis("sp", "Sequence: ranks that share each sequence."),
      axis("tp", "Tensor: ranks that share each weight."),
      { "ep", type = "integer", min = 1, max = 2 ^ 20, unit = "ranks", computed = "1",
        doc = "Experts: ranks that hold different ones, over parts of dp and sp. Not there yet: 1." },
    } },
  { "order", type = "list", of = { type = "string", choices = { "pp", "dp", "sp", "tp" } }, default = {},
    finish = finish_order,
    doc = "Axes, the one whose ranks are nearest first; what is not named follows as tp, sp, dp, pp." },
  { "machine", type = "table", default = {}, class = "lt.recipe.machine",
    doc = "What is near: ranks fill machine after machine. It decides predicted times, never results.", fields = {
      { "nodes", type = "integer", min = 1, max = 2 ^ 20, unit = "machines", computed = "as many as the ranks need",
        doc = "Machines there are." },
      { "per_node", type = "integer", min = 1, max = 2 ^ 20, unit = "ranks", computed = "all, shared out over nodes",
        doc = "Ranks on each machine." },
      { "links", type = "table", default = {}, class = "lt.recipe.links", doc = "How fast ranks reach each other.",
        fields = {
          { "inside", type = "size", min = 1, default = 5e9, unit = "bytes a second",
            doc = "Bytes a second from a rank to others of its machine." },
          { "between", type = "size", min = 1, default = 1.25e9, unit = "bytes a second",
            doc = "Bytes a second from a machine to others; its ranks share them." },
        } },
    } },
  { "partition", type = "any", default = "balanced", of = {
      { type = "string", choices = { "contiguous", "zigzag", "striped", "balanced", "weighted" } },
      { type = "function" } },
    doc = "How the blocks of a sequence are dealt over sp: \"balanced\": equal work, few keys moved; \"weighted\": " ..
      "work by layout.weights; or function(sequence) that returns the rank of every block, from 0." },
  { "weights", type = "any", default = {}, of = {
      { type = "list", of = { type = "integer", min = 1, max = 65536 } },
      { type = "string", choices = { "measured" } } },
    doc = "How fast each rank of sp is beside the others, for \"weighted\"; \"measured\": timed before the first " ..
      "step, then kept in saves." },
  { "max_share", type = "number", min = 1, max = 1024, default = 1.05,
    doc = "Most that a rank of sp holds of a sequence, as a multiple of a fair share, in whole blocks; memory is " ..
      "planned by it." },
  { "block", type = "integer", min = 1, max = MOST, unit = "tokens",
    computed = "128, less for under 1024 tokens a rank",
    doc = "Tokens a block that sequence parallelism deals." },
  { "exchange", type = "any", default = "auto", of = { exchange, { type = "list", of = exchange } },
    doc = "How queries meet the keys that other ranks hold: \"all_gather\": every rank gets all keys; \"ring\": " ..
      "they pass from rank to rank; \"direct\": from their owners; \"two_level\": rings of layout.inner ranks; " ..
      "\"ulysses\": every rank gets all rows of some heads; \"two_level_ulysses\": that among layout.inner ranks; " ..
      "\"auto\": the plan's choice. A list has one for each layer." },
  { "inner", type = "any", unit = "ranks", computed = "\"auto\" where an exchange has two levels, else none",
    unset = "none",
    of = { { type = "integer", min = 1, max = 2 ^ 20 }, { type = "string", choices = { "auto" } } },
    doc = "Ranks of sp near each other, for exchanges of two levels; it must divide sp. \"auto\": those of a " ..
      "machine, as layout.machine says, or the largest divisor that is not above the square root of sp." },
  { "max_depth", type = "integer", min = 1, max = 64, default = 1, unit = "hops",
    doc = "Hops of an exchange that may be under way at once; memory is planned for them." },
  { "depth", type = "integer", min = 1, max = 64, computed = "layout.max_depth", unit = "hops",
    doc = "Hops that are under way at once when a run starts." },
  { "place", type = "map", default = {}, key = "a name *", of = { type = "any", of = {
      { type = "string", choices = { "replicated" } },
      { type = "table", class = "lt.recipe.placement", fields = {
        { "tp", type = "any", computed = "as its layer says", doc = "The dimension that tp cuts; false: none.", of = {
          { type = "integer", min = 0, max = 7 }, { type = "string", choices = { "out", "in" } },
          { type = "constant", is = false } } },
        { "shard", type = "integer", min = 0, max = 3, computed = "optim.shard",
          doc = "What dp and sp share out of it: 1 moments, 2 gradients too, 3 the parameter as well." },
      } } } },
    doc = "Parameters by patterns of their names, over what layers and optimizer say: \"replicated\" on tp, or " ..
      "{ tp = dimension, shard = level }." },
}

local keeping = { "none", "cheap", "attention", "layers", "auto" }
local checkpoint_fields = {
  { "mode", type = "string", choices = keeping, computed = '"auto" with a budget, "layers" with layers, else "none"',
    doc = "What layers compute again: \"none\"; \"cheap\": what element-wise operations made; " ..
      "\"attention\": all but what attention made; \"layers\": all but what enters them; " ..
      "\"auto\": for each layer one of these, chosen so that the step fits the budget in the least predicted time." },
  { "layers", type = "any", unit = "layers", computed = "what the budget needs, else all",
    unset = "as mode and budget ask",
    of = { { type = "integer", min = 0, max = MOST }, { type = "function" } },
    doc = "How many layers do so, the first ones; or function(facts) that says." },
  { "keep", type = "list", of = { type = "string" }, default = {},
    doc = "Patterns of scopes inside layers, as \"layer */attention\", whose results are kept in any case." },
  { "drop", type = "list", of = { type = "string" }, default = {},
    doc = "Patterns of scopes inside layers whose results are computed again in any case." },
  { "budget", type = "size", default = 0, unit = "bytes", doc = "Memory a rank may use; 0: any." },
}

local checkpoint = { "checkpoint", type = "any", default = {}, of = {
    { type = "string", choices = keeping },
    { type = "table", fields = checkpoint_fields, class = "lt.recipe.checkpoint" } },
  finish = function(value)
    if type(value) == "string" then value = { mode = value, budget = 0 } end
    value.mode = value.mode or value.layers and "layers" or value.budget ~= 0 and "auto" or "none"
    return value
  end,
  doc = "What is computed again in the backward pass instead of kept: a mode, or a table of these." }

-- ---- The recipe ----

schema.root = {
  { "seed", type = "integer", min = 0, default = 0, doc = "What everything random follows from." },
  { "dtype", type = "string", choices = { "f32", "f64", "bf16" }, default = "f32", doc = "What is computed in." },
  { "data", type = "table", required = true, class = "lt.recipe.data", fields = data, finish = finish_data,
    doc = "The texts." },
  { "model", type = "any", required = true, of = { { type = "made", by = { "lt.nn.decoder" } }, { type = "function" } },
    doc = "A model, or function(ctx) that returns its loss." },
  { "optim", type = "made", by = { "lt.optim.adamw" }, required = true, doc = "The optimizer." },
  { "train", type = "table", default = {}, class = "lt.recipe.train", fields = train, doc = "The run." },
  { "layout", type = "table", default = {}, class = "lt.recipe.layout", fields = layout,
    finish = finish_layout,
    doc = "How it is spread over ranks." },
  checkpoint,
  { "save", type = "table", default = {}, class = "lt.recipe.save", fields = save, doc = "Saves of the run." },
  { "device", type = "table", default = {}, class = "lt.recipe.device", doc = "What computes.", fields = {
      { "isa", type = "string", choices = { "auto", "portable", "avx2", "avx512", "avx512_bf16", "amx" },
        default = "auto",
        doc = "Whose kernels; \"auto\": what LTRAIN_ISA names, else the best this processor runs." } } },
  policy.fields[1],
  policy.fields[2],
}

-- A list of exchanges is as long as there are layers.
local function check_exchange(l, model, faults)
  local list, layers = l.exchange, type(model) == "table" and model.layers
  if type(list) == "table" and layers and #list ~= layers then
    schema.add(faults, "layout.exchange", "is a list that has not one exchange for each layer",
      { expected = layers .. " exchanges", got = tostring(#list) })
  end
end

-- The ready-made policy that looks at held-out text needs some.
local function check_plateau(r, faults)
  local list = type(r.on_step) == "table" and (r.on_step.kind and { r.on_step } or r.on_step) or {}
  if not r.data or r.data.eval or r.data.hold_out > 0 then return end
  for i, p in ipairs(list) do
    if type(p) == "table" and p.kind == "plateau" then
      schema.add(faults, list[1] == r.on_step and "on_step" or schema.join("on_step", i),
        "looks at held-out text, and there is none", { expected = "data.eval or data.hold_out" })
    end
  end
end

-- Checks across the parts of a recipe, each only of parts that are right by themselves.
local function check_across(r, faults, fed)
  if r.layout then check_exchange(r.layout, r.model, faults) end
  if #faults == 0 then check_plateau(r, faults) end
  local vocab = type(r.model) == "table" and r.model.vocab
  if vocab and vocab < 256 and not fed then
    schema.add(faults, "model.vocab", "text is bytes", { expected = "at least 256", got = tostring(vocab) })
  end
end

-- A recipe whose steps a program feeds names no files.
local function with_feed(given)
  local out, texts = {}, {}
  for key, x in pairs(given) do out[key] = x end
  if given.data == nil or type(given.data) == "table" then
    for key, x in pairs(given.data or {}) do texts[key] = x end
    texts.train = { "(fed)" }
    out.data = texts
  end
  return out
end

-- What follows from several parts that are right.
local function finish(r)
  local longest = 1
  for _, pair in ipairs(r.data.length) do longest = math.max(longest, pair[2]) end
  r.train.eval_length = r.train.eval_length or longest
end

-- All faults of a recipe, and its complete settings where there are none. fed: a program gives every step's tokens.
function recipe.check(given, fed)
  local faults = {}
  if type(given) ~= "table" then
    schema.add(faults, "", "the recipe must return a table",
      { expected = "return { … }", got = core.type(given) })
    return nil, faults
  end
  local settings = schema.fields(fed and with_feed(given) or given, schema.root, "", faults)
  check_across(settings, faults, fed)
  if #faults == 0 then finish(settings) end
  return settings, faults
end

-- One part of a recipe on its own, as scripts use it: lt.check(model, "model"). Raises the first fault.
function recipe.check_part(value, name)
  local faults = {}
  local field = schema.field(schema.root, name)
  if not field then core.fail { what = "a recipe has no part '" .. tostring(name) .. "'" } end
  local out = schema.check(value, field, name, faults)
  schema.raise(faults)
  return out
end

return recipe
