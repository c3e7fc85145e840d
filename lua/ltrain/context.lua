-- context.lua: what a layer is written with: parameters, linear layers, scopes, feeds, outputs, around the builder.
-- A name given to a parameter is completed by where it is made ("model.layers.3.mlp." .. name), and every operation
-- carries the scope it was made in ("layer 3/feed-forward"), which plans and messages speak of.
local core = require "ltrain.core"
local place = require "ltrain.place"
local control = require "ltrain.control"
local op = core.op

local context = {}
local methods = {}
local meta = { __index = methods, __metatable = "lt.context" }

-- options: training (default true); place: the recipe's layout.place; recipe: nobody can bind arrays, so feeds are
-- columns of the step table; generate: { reach =, chunk = }, keys and values are kept from step to step (ctx:kept).
-- exchange: the recipe's layout.exchange, a name or one for each layer.
function context.new(builder, options)
  options = options or {}
  return setmetatable({
    builder = builder,
    training = options.training ~= false,
    recipe = options.recipe or false,
    generate = options.generate,
    exchange = options.exchange or "all_gather",
    residual_scale = 1,
    std = 0.02,
    prefix = "",
    path = "",
    cache = {},
    crosses = {}, -- { lse, logit } of every cross_entropy
    places = place.new(options.place),
  }, meta)
end

-- ---- Arguments ----

local function check_name(name, method)
  if type(name) ~= "string" then
    core.fail { what = method .. " takes a name first", expected = "a string", got = core.type(name) }
  end
end

-- The options given, each a known one.
local function read_options(options, known, method)
  if options == nil then return {} end
  if type(options) ~= "table" then
    core.fail { what = method .. " takes its options in a table", got = core.type(options) }
  end
  for key in pairs(options) do
    local found = false
    for _, name in ipairs(known) do found = found or name == key end
    if not found then
      local near = type(key) == "string" and core.nearest(key, known)
      core.fail { what = string.format("%s has no option '%s'", method, tostring(key)),
        expected = "one of " .. table.concat(known, ", "), hint = near and "did you mean " .. near .. "?" or nil }
    end
  end
  return options
end

-- ---- Scopes ----

-- Run fn(...) in the scope path/name with `prefix` in front of the names of parameters; hands on what fn returns.
local function inside(ctx, path, prefix, fn, ...)
  local old_path, old_prefix = ctx.path, ctx.prefix
  ctx.path, ctx.prefix = path, prefix
  ctx.builder:scope(path)
  local function leave(...)
    ctx.path, ctx.prefix = old_path, old_prefix
    ctx.builder:scope(old_path)
    return ...
  end
  return leave(fn(...))
end

-- ctx:scope(name, fn, …): `name` becomes part of the scope and of the parameters' names.
function methods.scope(ctx, name, fn, ...)
  check_name(name, "ctx:scope")
  if type(fn) ~= "function" then core.fail { what = "ctx:scope takes a name and a function", got = core.type(fn) } end
  local path = ctx.path == "" and name or ctx.path .. "/" .. name
  return inside(ctx, path, ctx.prefix .. name .. ".", fn, ...)
end

-- The same with a prefix of its own: ctx:scope_as("layer 3/attention", "model.layers.3.self_attn.", fn, …)
function methods.scope_as(ctx, path, prefix, fn, ...) return inside(ctx, path, prefix, fn, ...) end

-- ---- Parameters ----

-- What `init` says: a number is the deviation of a normal; "zeros", "ones"; { uniform = a } lies in [-a, a).
local function read_init(init, std)
  if init == nil then return "normal", std end
  if type(init) == "number" then return "normal", init end
  if init == "zeros" then return "zeros", 0 end
  if init == "ones" then return "constant", 1 end
  if type(init) == "table" and type(init.uniform) == "number" then return "uniform", init.uniform end
  if type(init) == "table" and type(init.constant) == "number" then return "constant", init.constant end
  core.fail {
    what = "init is not known", key = "init", got = core.tostring(init),
    expected = 'a deviation, "zeros", "ones", { uniform = a } or { constant = a }',
  }
end

local tp_dims = { out = 0, ["in"] = 1 }

-- ctx:param(name, dims [, { init, tp = "out" | "in" | dimension from 0, decay, trainable }]) → its value
-- An extent is a number, or { number, granule }: the smallest run that must stay together (a head).
function methods.param(ctx, name, dims, options)
  check_name(name, "ctx:param")
  options = read_options(options, { "init", "tp", "decay", "trainable" }, "ctx:param")
  local init, a = read_init(options.init, ctx.std)
  local tp = options.tp or nil
  if type(tp) == "string" then
    tp = tp_dims[tp]
    if not tp then
      core.fail { what = "tp is not known", expected = '"out", "in" or a dimension', got = options.tp }
    end
  end
  local cut, shard = ctx.places:of(ctx.prefix .. name, #dims, tp)
  local state = ctx.builder:state {
    name = ctx.prefix .. name, dims = dims, role = "param", init = init, a = a, tp = cut, shard = shard,
    decay = options.decay, trainable = options.trainable,
  }
  return ctx.builder:read(state)
end

-- ctx:buffer(name, dims [, { init }]): a state that is no parameter.
function methods.buffer(ctx, name, dims, options)
  check_name(name, "ctx:buffer")
  local init, a = read_init(read_options(options, { "init" }, "ctx:buffer").init or "zeros", 0)
  return ctx.builder:read(ctx.builder:state {
    name = ctx.prefix .. name, dims = dims, role = "buffer", init = init, a = a,
  })
end

-- ctx:linear(name, x, out [, { bias, init, tp, granule, residual }]): x times the transpose of NAME.weight, [out, in].
-- tp: "out" (the default), "in", or false: every rank has the whole weight.
-- residual: the product is added to the residual stream, so its first values are smaller the more layers add to it.
function methods.linear(ctx, name, x, out, options)
  check_name(name, "ctx:linear")
  if core.type(x) ~= "lt.value" then
    core.fail { what = "ctx:linear takes a value after its name", got = core.type(x) }
  end
  options = read_options(options, { "bias", "init", "tp", "granule", "residual" }, "ctx:linear")
  local init = options.init
  if init == nil and options.residual then init = ctx.std * ctx.residual_scale end
  local tp = options.tp == nil and "out" or options.tp
  local w = ctx:param(name .. ".weight", { { out, options.granule or 1 }, { x.width, x.granule } },
    { init = init, tp = tp })
  local y = op.matmul(x, w, { trans_b = true })
  if options.bias then
    y = y + ctx:param(name .. ".bias", { { out, options.granule or 1 } },
      { init = "zeros", tp = tp == "out" and 0 or nil })
  end
  return y
end

-- ctx:norm(name, x [, { kind = "rmsnorm" | "layernorm", eps }])
function methods.norm(ctx, name, x, options)
  check_name(name, "ctx:norm")
  options = read_options(options, { "kind", "eps" }, "ctx:norm")
  local kind, eps = options.kind or "rmsnorm", options.eps or 1e-5
  if kind ~= "rmsnorm" and kind ~= "layernorm" then
    core.fail { what = "there is no norm of this kind", key = "kind", expected = 'one of "rmsnorm", "layernorm"',
      got = type(kind) == "string" and kind or core.type(kind) }
  end
  local weight = ctx:param(name .. ".weight", { { x.width, x.granule } }, { init = "ones" })
  if kind == "rmsnorm" then return (op.rmsnorm(x, weight, { eps = eps })) end
  local bias = ctx:param(name .. ".bias", { { x.width, x.granule } }, { init = "zeros" })
  return (op.layernorm(x, weight, bias, { eps = eps }))
end

-- ctx:dropout(x, p): nothing in evaluation. Masks depend on seed, scope, step and the token, never on the layout.
function methods.dropout(ctx, x, p)
  if p == 0 or not ctx.training then return x end
  ctx.dropouts = (ctx.dropouts or 0) + 1
  return op.dropout(x, ctx:feed "ordinal", { p = p, stream = "dropout/" .. ctx.dropouts })
end

-- ---- The borders of the graph ----

-- Columns of the step table, and the reciprocal of its count of labels.
local columns = {
  token = { dtype = "i32" }, label = { dtype = "i32" }, document = { dtype = "i32" }, position = { dtype = "i32" },
  ordinal = { dtype = "i32" }, weight = { dtype = "f32" }, loss_scale = { dtype = "real", tokens = false },
}
local column_names = { "token", "label", "document", "position", "ordinal", "weight", "loss_scale" }

-- ctx:feed(name [, { dtype, tokens, d1, d2, d3 }]): a column of the step table, or an array bound by name. Made once,
-- outside of any layer: it is there before the first.
function methods.feed(ctx, name, options)
  check_name(name, "ctx:feed")
  local made = ctx.cache[name]
  if made then return made end
  if ctx.recipe and not columns[name] then
    local near = core.nearest(name, column_names)
    core.fail { what = "the step table has no column '" .. name .. "'",
      expected = "one of " .. table.concat(column_names, ", "),
      hint = near and "did you mean " .. near .. "?" or nil }
  end
  local attributes = { name = name }
  for key, value in pairs(options or columns[name] or {}) do attributes[key] = value end
  made = inside(ctx, "", "", op.feed, attributes)
  ctx.cache[name] = made
  return made
end

-- ctx:output(name, value): readable after every step.
function methods.output(_, name, value) op.output(value, { name = name }) end

-- ctx:control(control) or ctx:control(name, default): a number that may change between steps, for attributes that take
-- one: what lt.control returned, or the name of one that is there; in a graph alone, any name.
function methods.control(ctx, name, default)
  if ctx.recipe then name, default = control.find(name, default) end
  return ctx.builder:control(name, default)
end

-- ctx:want(value, name): the gradient of the loss by a value, as an output.
function methods.want(ctx, value, name) ctx.builder:want(value, name) end

-- ctx:loss(value): what is differentiated; also the output "loss".
function methods.loss(ctx, value)
  ctx.builder:loss(value)
  ctx:output("loss", value)
end

-- ctx:cross_entropy(x, w [, { chunk }]): the loss of logits x times the transpose of w against the step's labels,
-- summed over all tokens that count and divided by their number. chunk: rows whose logits exist at a time.
function methods.cross_entropy(ctx, x, w, options)
  local label = ctx:feed "label"
  local lse, logit = op.label_logits(x, w, label, options or {})
  ctx.crosses[#ctx.crosses + 1] = { lse = lse, logit = logit }
  return op.label_loss(lse, logit, label, ctx:feed "weight", ctx:feed "loss_scale")
end

-- The loss of every token as outputs: label_lse - label_logit. A model of several cross entropies has none.
function methods.token_losses(ctx)
  if #ctx.crosses ~= 1 then return end
  ctx:output("label_lse", ctx.crosses[1].lse)
  ctx:output("label_logit", ctx.crosses[1].logit)
end

-- ---- Attention over the step table ----

-- ctx:exchange_at(heads, kv_heads, head_dim, window): how the queries of the layer at hand meet keys of other ranks:
-- as the recipe says, or as is fastest by the plan.
function methods.exchange_at(ctx, heads, kv_heads, head_dim, window)
  local x = ctx.exchange
  if type(x) == "table" then x = x[(ctx.layer or -1) + 1] end
  if not x then
    core.fail { what = "a list of exchanges has none for this layer", key = "layout.exchange",
      expected = "one for each layer", got = ctx.layer and "layer " .. ctx.layer or "attention outside layers" }
  end
  return x == "auto" and ctx.builder:exchange(heads, kv_heads, head_dim, window) or x
end

-- ctx:spans(window, block, exchange): which blocks of keys a block of queries can see; one for all layers with that
-- window and exchange.
function methods.spans(ctx, window, block, exchange)
  exchange = exchange or "all_gather"
  local key = "spans " .. window .. " " .. block .. " " .. exchange
  local made = ctx.cache[key]
  if made then return made end
  local position, document = ctx:feed "position", ctx:feed "document"
  made = inside(ctx, "", "", op.attention_spans, position, document, position, document,
    { block = block, window = window, exchange = exchange })
  ctx.cache[key] = made
  return made
end

-- ---- Keys and values that are kept ----

-- What all layers that see equally far share: which slot each token has, and which token each slot holds, bound by
-- host/run/slots.c under these names. A query sees `reach` positions; a chunk of tokens is written at once before any
-- of them looks back, so that it needs room besides.
local function ring(ctx, window)
  local reach = ctx.generate.reach
  if window > 0 and window < reach then reach = window end
  local slots = reach + ctx.generate.chunk - 1
  local made = ctx.cache[slots]
  if made then return made end
  local function feed(name, tokens)
    return inside(ctx, "", "", op.feed,
      { name = "slots " .. slots .. " " .. name, dtype = "i32", tokens = tokens, d1 = tokens and 0 or slots })
  end
  made = { reach = reach, slots = slots, row = feed("row", true), position = feed("position", false),
    document = feed("document", false), spans = {} }
  ctx.cache[slots] = made
  return made
end

-- The rows of x at their tokens' slots, among those of earlier steps.
local function keep(ctx, name, x, of, tp)
  local buffer = ctx.builder:state { name = "slots/" .. ctx.prefix .. name, role = "buffer", tp = tp and 1 or nil,
    dims = { of.slots, { x.width, x.granule } } }
  return op.write_rows(ctx.builder:read(buffer), x, of.row)
end

-- ctx:attention(q, k, v, { head_dim, window, block }): of the tokens at hand, or of all that were kept.
-- tp: k and v are cut.
function methods.attention(ctx, q, k, v, options, tp)
  local position, document, window, block = ctx:feed "position", ctx:feed "document", options.window, options.block
  if not ctx.generate then
    local exchange = options.exchange
      or ctx:exchange_at(q.width / options.head_dim, k.width / options.head_dim, options.head_dim, window)
    return (op.attention(q, k, v, position, document, position, document, ctx:spans(window, block, exchange),
      { head_dim = options.head_dim, window = window, block = block, exchange = exchange }))
  end
  local of = ring(ctx, window)
  k, v = keep(ctx, "k_proj", k, of, tp), keep(ctx, "v_proj", v, of, tp)
  of.spans[block] = of.spans[block] or inside(ctx, "", "", op.attention_spans, position, document, of.position,
    of.document, { block = block, window = of.reach })
  return (op.attention(q, k, v, position, document, of.position, of.document, of.spans[block],
    { head_dim = options.head_dim, window = of.reach, block = block }))
end

-- ctx:last(x): its rows of the tokens whose logits are wanted; all but in generation.
function methods.last(ctx, x)
  return op.gather_rows(x, inside(ctx, "", "", op.feed, { name = "last", dtype = "i32", tokens = false, d1 = 1 }))
end

-- ---- A dot for a colon ----

for name, method in pairs(methods) do
  methods[name] = function(ctx, ...)
    if getmetatable(ctx) ~= meta.__metatable then
      core.fail { what = string.format("ctx:%s is called with a colon", name), got = "ctx." .. name .. "(…)" }
    end
    return method(ctx, ...)
  end
end

return context
