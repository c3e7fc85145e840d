-- nn.lua: the models: constructors that return plain tables, and the functions that build graphs from them.
-- A decoder is what the field means by it: x += attention(norm(x)), x += feed_forward(norm(x)), over documents packed
-- end to end. Parameters have the names that published checkpoints use.
local core = require "ltrain.core"
local construct = require "ltrain.construct"
local op = core.op

local nn = {}

nn.decoder = construct("decoder", "lt.nn.decoder")
nn.swiglu = construct("swiglu", "lt.nn.swiglu")
nn.gelu = construct("gelu", "lt.nn.gelu")

-- ---- What the fields are: read by ltrain.schema ----

local rope = {
  base = { "number", above = 0, default = 10000, meaning = "base of the frequencies" },
  scaling = { "string", choices = { "none", "linear", "ntk", "yarn" }, default = "none", meaning = "for longer texts" },
  factor = { "number", min = 1, default = 1, meaning = "of the scaling" },
  original_length = { "number", min = 1, default = 2048, meaning = "length before the scaling (yarn)" },
}

local attention = {
  window = { "window", default = false, meaning = "keys a query sees; false: all; a list: one a layer" },
  rope = { "table", fields = rope, default = {}, meaning = "rotary positions; false: none" },
  block = { "integer", min = 1, default = 128, meaning = "queries and keys a block of the kernel" },
}

local hidden = {
  hidden = { "integer", min = 1, meaning = "width inside; default: a multiple of 16 near 8/3 widths (gelu: 4)" },
}

nn.schema = {
  decoder = {
    vocab = { "integer", min = 1, default = 256, meaning = "tokens there are; 256: bytes" },
    width = { "integer", min = 1, required = true, meaning = "of the residual stream" },
    layers = { "integer", min = 0, required = true, meaning = "layers" },
    heads = { "integer", min = 1, required = true, meaning = "query heads" },
    kv_heads = { "integer", min = 1, meaning = "key and value heads; default: heads" },
    head_dim = { "integer", min = 2, meaning = "width of a head; default: width / heads" },
    attention = { "table", fields = attention, default = {}, meaning = "what is seen, and positions" },
    ffn = { "kind", kinds = { swiglu = hidden, gelu = hidden }, callable = true, default = { kind = "swiglu" },
      meaning = "lt.nn.swiglu {}, lt.nn.gelu {}, or function(x, ctx)" },
    norm = { "string", choices = { "rmsnorm", "layernorm" }, default = "rmsnorm", meaning = "of every layer" },
    eps = { "number", above = 0, default = 1e-5, meaning = "of the norms" },
    dropout = { "number", min = 0, below = 1, default = 0, meaning = "of what is added to the residual stream" },
    tied = { "boolean", default = false, meaning = "the output matrix is the embedding" },
    std = { "number", above = 0, default = 0.02, meaning = "deviation of the initial weights" },
    chunk = { "integer", min = 1, default = 256, meaning = "rows of logits that exist at once in the loss" },
    outputs = { "list", of = { "string", choices = { "logits" } }, default = {}, meaning = "further outputs" },
  },
}

-- Checks that need more than one field; faults are added with `fault(key, what, …)`.
function nn.check_decoder(m, fault)
  m.kv_heads = m.kv_heads or m.heads
  if not m.head_dim then
    if m.width % m.heads ~= 0 then
      return fault("head_dim", "width is no multiple of heads, so a head's width must be given",
        { expected = "head_dim", got = string.format("width %d, heads %d", m.width, m.heads) })
    end
    m.head_dim = m.width / m.heads
  end
  if m.heads % m.kv_heads ~= 0 then
    fault("kv_heads", "every kv head must serve the same number of query heads",
      { expected = "a divisor of " .. m.heads, got = tostring(m.kv_heads) })
  end
  if m.head_dim % 2 ~= 0 and m.attention.rope then
    fault("head_dim", "rotary positions turn pairs", { expected = "an even head_dim", got = tostring(m.head_dim) })
  end
  if type(m.attention.window) == "table" and #m.attention.window ~= m.layers then
    fault("attention.window", "one window a layer",
      { expected = m.layers .. " windows", got = tostring(#m.attention.window) })
  end
end

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
local function head_cut(ctx, m)
  local group, dim = m.heads / m.kv_heads, m.head_dim
  if ctx.builder:tp() <= m.kv_heads then return group * dim, dim, "out" end
  return dim, dim, false
end

local function attention_layer(x, ctx, m, layer)
  local dim, block = m.head_dim, m.attention.block
  local q_granule, granule, tp = head_cut(ctx, m)
  local position, document, window = ctx:feed "position", ctx:feed "document", window_of(m, layer)
  local q = ctx:linear("q_proj", x, m.heads * dim, { granule = q_granule })
  local k = ctx:linear("k_proj", x, m.kv_heads * dim, { granule = granule, tp = tp })
  local v = ctx:linear("v_proj", x, m.kv_heads * dim, { granule = granule, tp = tp })
  local r = m.attention.rope
  if r then
    local turn = { head_dim = dim, base = r.base, scaling = r.scaling, factor = r.factor,
      original_length = r.original_length }
    q, k = op.rope(q, position, turn), op.rope(k, position, turn)
  end
  local out = op.attention(q, k, v, position, document, position, document, ctx:spans(window, block),
    { head_dim = dim, window = window, block = block })
  return ctx:linear("o_proj", out, m.width, { tp = "in", residual = true })
end

-- ---- The decoder ----

local function decoder_layer(x, ctx, m, layer)
  local scope, prefix = "layer " .. layer, "model.layers." .. layer .. "."
  local norm = { kind = m.norm, eps = m.eps }
  ctx.layer = layer
  x = ctx:scope_as(scope .. "/attention", prefix, function()
    local h = ctx:norm("input_layernorm", x, norm)
    h = ctx:scope_as(scope .. "/attention", prefix .. "self_attn.", attention_layer, h, ctx, m, layer)
    return x + ctx:dropout(h, m.dropout)
  end)
  return ctx:scope_as(scope .. "/feed-forward", prefix, function()
    local h = ctx:norm("post_attention_layernorm", x, norm)
    h = ctx:scope_as(scope .. "/feed-forward", prefix .. "mlp.", feed_forward, h, ctx, m.ffn)
    return x + ctx:dropout(h, m.dropout)
  end)
end

local function build_decoder(ctx, m)
  ctx.std, ctx.residual_scale = m.std, 1 / math.sqrt(math.max(1, 2 * m.layers))
  local embed = ctx:scope_as("embedding", "model.", ctx.param, ctx, "embed_tokens.weight", { m.vocab, m.width },
    { tp = 0 })
  local x = ctx:scope_as("embedding", "model.", function()
    return ctx:dropout(op.embedding(ctx:feed "token", embed), m.dropout)
  end)
  for layer = 0, m.layers - 1 do x = decoder_layer(x, ctx, m, layer) end
  x = ctx:scope_as("head", "model.", ctx.norm, ctx, "norm", x, { kind = m.norm, eps = m.eps })
  return ctx:scope_as("head", "", function()
    local w = m.tied and embed or ctx:param("lm_head.weight", { m.vocab, m.width }, { tp = 0 })
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

return nn
