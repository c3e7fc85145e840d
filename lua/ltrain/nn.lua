-- nn.lua: the models: constructors that return plain tables, and the functions that build graphs from them.
-- A decoder is what the field means by it: x += attention(norm(x)), x += feed_forward(norm(x)), over documents packed
-- end to end. Parameters have the names that published checkpoints use.
local core = require "ltrain.core"
local construct = require "ltrain.construct"
local control = require "ltrain.control"
local op = core.op

local nn = {}

-- ---- The constructors and their fields ----

local SMALLEST = 1.1754944e-38 -- normal float32: what is less is nothing, and divides nothing

local rope = {
  { "base", type = "number", min = 1, default = 10000, doc = "Base of the frequencies." },
  { "scaling", type = "string", choices = { "none", "linear", "ntk", "yarn" }, default = "none",
    doc = "How positions beyond the length of the first training are brought back into it." },
  { "factor", type = "number", min = 1, default = 1, doc = "How many times longer texts are than that length." },
  { "original_length", type = "number", min = 1, default = 2048, unit = "tokens",
    doc = "The length of the first training, which YaRN asks for." },
}

local one_window = { type = "any", name = "one of these", of = {
  { type = "constant", is = false },
  { type = "integer", min = 1, max = 2 ^ 31 - 1 },
} }

local attention = {
  { "window", type = "any", of = { one_window.of[1], one_window.of[2], { type = "list", of = one_window } },
    default = false, unit = "tokens",
    doc = "Keys a query sees, itself among them; false: all before it. A list has one for each layer." },
  { "rope", type = "any", of = { { type = "constant", is = false }, { type = "table", fields = rope,
      class = "lt.nn.decoder.rope" } }, default = {}, doc = "Rotary positions; false: none." },
  { "block", type = "integer", min = 1, max = 4096, default = 128, unit = "tokens",
    doc = "Queries and keys a block of the kernel." },
}

local function hidden(computed)
  return { { "hidden", type = "integer", min = 1, max = 2 ^ 24, computed = computed, doc = "Width inside." } }
end

nn.swiglu = construct { "lt.nn.swiglu", fields = hidden "8/3 widths, to a multiple of 16",
  doc = "A gated feed-forward layer: down(silu(gate(x)) · up(x))." }
nn.gelu = construct { "lt.nn.gelu", fields = hidden "4 widths, to a multiple of 16",
  doc = "A plain feed-forward layer with biases: down(gelu(up(x)))." }

-- Checks that need more than one field, and the defaults that follow from others.
local function finish_decoder(m, _, fault)
  m.kv_heads = m.kv_heads or m.heads
  if not m.head_dim and m.width % m.heads ~= 0 then
    fault(".head_dim", "width is no multiple of heads, so a head's width must be given",
      { expected = "head_dim", got = string.format("width %d, heads %d", m.width, m.heads) })
  else
    m.head_dim = m.head_dim or m.width / m.heads
    if m.head_dim % 2 ~= 0 and m.attention.rope then
      fault(".head_dim", "rotary positions turn pairs", { expected = "an even head_dim", got = tostring(m.head_dim) })
    end
  end
  if m.heads % m.kv_heads ~= 0 then
    fault(".kv_heads", "every kv head must serve the same number of query heads",
      { expected = "a divisor of " .. m.heads, got = tostring(m.kv_heads) })
  end
  if type(m.attention.window) == "table" and #m.attention.window ~= m.layers then
    fault(".attention.window", "is a list that has not one window for each layer",
      { expected = m.layers .. " windows", got = tostring(#m.attention.window) })
  end
end

nn.decoder = construct { "lt.nn.decoder", finish = finish_decoder,
  doc = "A decoder: layers of attention and feed-forward on a residual stream, and the loss of the next token.",
  fields = {
    { "vocab", type = "integer", min = 1, max = 2 ^ 24, default = 256, unit = "tokens",
      doc = "Tokens there are; text is bytes, of which there are 256." },
    { "width", type = "integer", min = 1, max = 2 ^ 24, required = true, doc = "Width of the residual stream." },
    { "layers", type = "integer", min = 0, max = 2 ^ 16, required = true, doc = "Layers." },
    { "heads", type = "integer", min = 1, max = 2 ^ 16, required = true, doc = "Query heads of a layer." },
    { "kv_heads", type = "integer", min = 1, max = 2 ^ 16, computed = "heads",
      doc = "Key and value heads of a layer; they must divide heads." },
    { "head_dim", type = "integer", min = 1, max = 2 ^ 16, computed = "width / heads",
      doc = "Width of a head; even, if there are rotary positions." },
    { "attention", type = "table", fields = attention, default = {}, class = "lt.nn.decoder.attention",
      doc = "What is seen, and where it is." },
    { "ffn", type = "any", default = { kind = "swiglu" }, of = {
        { type = "made", by = { "lt.nn.swiglu", "lt.nn.gelu" }, default = { kind = "swiglu" } },
        { type = "function" } },
      doc = "The feed-forward layer: a built-in one, or function(x, ctx) that returns a value of x's shape." },
    { "norm", type = "string", choices = { "rmsnorm", "layernorm" }, default = "rmsnorm",
      doc = "The norm of every layer." },
    { "eps", type = "number", min = SMALLEST, max = 1, default = 1e-5, doc = "Added to the variance in the norms." },
    { "dropout", type = "number", min = 0, below = 1, default = 0,
      doc = "Share of what is added to the residual stream that is left out, in training." },
    { "tied", type = "boolean", default = false, doc = "The output matrix is the embedding." },
    { "std", type = "number", min = SMALLEST, max = 1e6, default = 0.02, doc = "Deviation of the initial weights." },
    { "chunk", type = "integer", min = 1, max = 2 ^ 31 - 1, default = 256, unit = "tokens",
      doc = "Rows of logits that exist at once in the loss." },
    { "outputs", type = "list", of = { type = "string", choices = { "logits" } }, default = {},
      doc = "What else is computed, for scripts to read." },
  } }

-- ---- Feed-forward layers ----

local function default_hidden(width, factor) return math.max(16, math.floor(width * factor / 16 + 0.5) * 16) end

local ffn = {}

function ffn.swiglu(x, ctx, spec)
  local hidden_width = spec.hidden or default_hidden(x.width, 8 / 3)
  local gate, up = ctx:linear("gate_proj", x, hidden_width), ctx:linear("up_proj", x, hidden_width)
  return ctx:linear("down_proj", op.swiglu(gate, up), x.width, { tp = "in", residual = true })
end

function ffn.gelu(x, ctx, spec)
  local h = op.gelu(ctx:linear("up_proj", x, spec.hidden or default_hidden(x.width, 4), { bias = true }))
  return ctx:linear("down_proj", h, x.width, { tp = "in", residual = true, bias = true })
end

local function form(x)
  local words = {}
  for i, n in ipairs(x.shape) do words[i] = tostring(n) end
  return x.dtype .. "[" .. table.concat(words, ", ") .. "]"
end

local function feed_forward(x, ctx, spec)
  if type(spec) ~= "function" then return ffn[spec.kind](x, ctx, spec) end
  local y = spec(x, ctx)
  if core.type(y) ~= "lt.value" then
    core.fail { what = "ffn must return a value", key = "model.ffn", expected = form(x), got = core.type(y) }
  end
  if form(y) ~= form(x) then
    core.fail { what = "ffn must return the shape it was given", key = "model.ffn", expected = form(x), got = form(y) }
  end
  core.forget_line()
  return y
end

-- ---- Attention ----

local function window_of(m, layer)
  local w = m.attention.window
  if type(w) == "table" then w = w[layer + 1] end
  return w or 0
end

-- What of a projection's output is never cut, for queries and for keys, and how keys are: kv heads with their query
-- heads; or, where ranks are more than kv heads, query heads alone: every rank then has all keys.
local function head_cut(ctx, m, exchange)
  local group, dim = m.heads / m.kv_heads, m.head_dim
  if ctx.builder:head_ranks(exchange) <= m.kv_heads then return group * dim, dim, "out" end
  return dim, dim, false
end

local function attention_layer(x, ctx, m, layer)
  local dim, block = m.head_dim, m.attention.block
  local window = window_of(m, layer)
  local exchange = ctx.generate and "all_gather" or ctx:exchange_at(m.heads, m.kv_heads, dim, window)
  local q_granule, granule, tp = head_cut(ctx, m, exchange)
  local position = ctx:feed "position"
  local q = ctx:linear("q_proj", x, m.heads * dim, { granule = q_granule })
  local k = ctx:linear("k_proj", x, m.kv_heads * dim, { granule = granule, tp = tp })
  local v = ctx:linear("v_proj", x, m.kv_heads * dim, { granule = granule, tp = tp })
  local r = m.attention.rope
  if r then
    local turn = { head_dim = dim, base = r.base, scaling = r.scaling, factor = r.factor,
      original_length = r.original_length }
    q, k = op.rope(q, position, turn), op.rope(k, position, turn)
  end
  local out = ctx:attention(q, k, v, { head_dim = dim, window = window, block = block, exchange = exchange }, tp)
  return ctx:linear("o_proj", out, m.width, { tp = "in", residual = true })
end

-- ---- The decoder ----

-- The controls of a run with this model.
function nn.controls(model)
  local p = type(model) == "table" and model.dropout or 0
  if p > 0 then control.builtin("model.dropout", p, 0, math.max(p, 0.99)) end
end

local function dropout(ctx, x, m)
  if m.dropout == 0 or not ctx.training then return x end
  return ctx:dropout(x, ctx:control("model.dropout", m.dropout))
end

local function decoder_layer(x, ctx, m, layer)
  local scope, prefix = "layer " .. layer, "model.layers." .. layer .. "."
  local norm = { kind = m.norm, eps = m.eps }
  ctx.layer = layer
  x = ctx:scope_as(scope .. "/attention", prefix, function()
    local h = ctx:norm("input_layernorm", x, norm)
    h = ctx:scope_as(scope .. "/attention", prefix .. "self_attn.", attention_layer, h, ctx, m, layer)
    return x + dropout(ctx, h, m)
  end)
  return ctx:scope_as(scope .. "/feed-forward", prefix, function()
    local h = ctx:norm("post_attention_layernorm", x, norm)
    h = ctx:scope_as(scope .. "/feed-forward", prefix .. "mlp.", feed_forward, h, ctx, m.ffn)
    return x + dropout(ctx, h, m)
  end)
end

-- Its loss; in generation, the logits of what follows the last token.
local function build_decoder(ctx, m)
  ctx.std, ctx.residual_scale = m.std, 1 / math.sqrt(math.max(1, 2 * m.layers))
  local embed = ctx:scope_as("embedding", "model.", ctx.param, ctx, "embed_tokens.weight", { m.vocab, m.width },
    { tp = 0 })
  local x = ctx:scope_as("embedding", "model.", function()
    return dropout(ctx, op.embedding(ctx:feed "token", embed), m)
  end)
  for layer = 0, m.layers - 1 do x = decoder_layer(x, ctx, m, layer) end
  if ctx.generate then x = ctx:last(x) end
  x = ctx:scope_as("head", "model.", ctx.norm, ctx, "norm", x, { kind = m.norm, eps = m.eps })
  return ctx:scope_as("head", "", function()
    local w = m.tied and embed or ctx:param("lm_head.weight", { m.vocab, m.width }, { tp = 0 })
    if ctx.generate then return op.matmul(x, w, { trans_b = true }) end
    for _, name in ipairs(m.outputs) do
      if name == "logits" then ctx:output("logits", op.matmul(x, w, { trans_b = true })) end
    end
    return ctx:cross_entropy(x, w, { chunk = m.chunk })
  end)
end

-- Build the forward pass of a checked model, its loss and outputs. A function is a model too: it returns the loss.
function nn.build(ctx, model)
  local loss
  if type(model) == "function" then
    loss = model(ctx)
    if core.type(loss) ~= "lt.value" then
      core.fail { what = "a model must return its loss", key = "model", got = core.type(loss) }
    end
  else
    ctx.builder:where(model.where or "")
    loss = build_decoder(ctx, model)
  end
  ctx:loss(loss)
  core.forget_line()
end

-- Build what generation runs: some tokens of one text a step, after those of earlier steps; output "logits" [1, vocab].
function nn.build_generate(ctx, model)
  if type(model) == "function" then
    core.fail { what = "a model that is a function cannot generate text", key = "model", expected = "lt.nn.decoder",
      hint = "keys and values of earlier tokens are kept by the built-in decoder; its ffn may be a function" }
  end
  ctx.builder:where(model.where or "")
  ctx:output("logits", build_decoder(ctx, model))
  core.forget_line()
end

return nn
