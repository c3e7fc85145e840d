-- decoders.lua: small whole decoders run on a layout and held against one rank: for the specs of this folder.
-- Steps are packed documents of uneven lengths with a loss mask: rows of several documents, a row that counts nothing,
-- documents as sequences of their own (some of one token), fewer sequences than ranks.
local lt = require "ltrain"

local decoders = {}

local VOCAB, WIDTH = 23, 24

-- ---- Steps ----

-- A fixed stream of numbers, 0 to n - 1.
local function numbers(seed)
  local x = seed
  return function(n)
    x = (x * 16807 + 11) % 2147483647
    return math.floor(x / 2147483647 * n)
  end
end

-- Rows of `length` tokens; a document ends with one chance in four. Row `silent` has no labels.
local function table_of(rows, length, seed, silent, split)
  local draw = numbers(seed)
  local token, label, document, weight = {}, {}, {}, {}
  for i = 1, rows * length do
    local row, first = math.floor((i - 1) / length) + 1, (i - 1) % length == 0
    token[i], label[i] = draw(VOCAB), draw(VOCAB)
    document[i] = first and 0 or document[i - 1] + (draw(4) == 0 and 1 or 0)
    if draw(5) == 0 or row == silent then label[i] = -1 end
    weight[i] = label[i] < 0 and 0 or 0.25 * (1 + draw(4))
  end
  local shape = { rows, length }
  return lt.data.tensors {
    tokens = lt.tensor(token, "i32"):reshape(shape), labels = lt.tensor(label, "i32"):reshape(shape),
    documents = lt.tensor(document, "i32"):reshape(shape), weights = lt.tensor(weight, "f32"):reshape(shape),
    split = split, vocab = VOCAB,
  }
end

decoders.steps = {
  table_of(5, 11, 1, 2), table_of(3, 9, 2, nil, "documents"), table_of(2, 7, 3, nil),
}

local function most(key)
  local n = 0
  for _, t in ipairs(decoders.steps) do n = math.max(n, t[key]) end
  return n
end

-- ---- Models ----

local function model(fields)
  fields.vocab, fields.width, fields.layers, fields.chunk, fields.std = VOCAB, WIDTH, 2, 8, 0.2
  fields.attention.block = fields.attention.block or 2
  return lt.check(lt.nn.decoder(fields), "model")
end

decoders.model = model

decoders.models = {
  { "4/2 heads, tied, dropout", model { heads = 4, kv_heads = 2, tied = true, dropout = 0.1, attention = {} } },
  { "3/1 heads, window", model { heads = 3, kv_heads = 1, attention = { window = 3, block = 3 } } },
  { "6/3 heads, biases, window, dropout", model { heads = 6, kv_heads = 3, norm = "layernorm", dropout = 0.1,
    ffn = lt.nn.gelu { hidden = 20 }, attention = { window = { 4, false } } } },
}

-- ---- Runs ----

local function update(shard)
  return lt.check(lt.optim.adamw { lr = 0.01, eps = 1e-4, clip = 0.5, shard = shard }, "optim")
end

-- Three steps on a layout: { mesh, ranks, order, place, shard, units, checkpoint, block, partition, max_share,
-- exchange, inner, max_depth, depth, dtype }.
-- → { loss, norm (by step), gradient (of step 1, by name), after (by name) }, memory, traffic
function decoders.run(m, layout)
  local optim = update(layout.shard)
  local p = lt.program {
    dtype = layout.dtype or "f64", ranks = layout.ranks, mesh = layout.mesh, order = layout.order, place = layout.place,
    shard = layout.shard, units = layout.units, checkpoint = layout.checkpoint, block = layout.block or 1, seed = 5,
    partition = layout.partition, max_share = layout.max_share, exchange = layout.exchange, inner = layout.inner,
    max_depth = layout.max_depth, depth = layout.depth,
    tokens = most "tokens", sequences = most "sequences", length = most "longest",
    build = function(ctx)
      lt.nn.build(ctx, m)
      lt.optim.build(ctx, optim)
    end,
  }
  local got = { loss = {}, norm = {}, gradient = {}, after = {} }
  p:control("lr", optim.lr)
  for step, t in ipairs(decoders.steps) do
    p:control("optim_t", step)
    p:step(t)
    got.loss[step], got.norm[step] = p:output("loss"):number(), p:output("grad_norm"):number()
    for _, s in ipairs(p:states()) do
      if s.role == "grad" and step == 1 then got.gradient[s.name] = p:read(s.name) end
      if s.role ~= "grad" and step == #decoders.steps then got.after[s.name] = p:read(s.name) end
    end
  end
  local memory, traffic = p:memory(), p:traffic()
  p:close()
  return got, memory, traffic
end

-- A model of two layers without dropout on one sequence of `tokens` tokens, tp 2: bytes a rank sends in a step, and
-- what Megatron's scheme with rows between the blocks needs: a gather before and a scatter after each block, both ways;
-- and the graph as it
-- was placed.
function decoders.tensor_traffic(tokens)
  local m = model { heads = 4, kv_heads = 2, ffn = lt.nn.swiglu { hidden = 32 }, attention = {} }
  local p = lt.program {
    dtype = "f64", ranks = 2, mesh = { tp = 2 }, tokens = tokens, sequences = 1, length = tokens,
    build = function(ctx)
      lt.nn.build(ctx, m)
      lt.optim.build(ctx, update(0))
    end,
  }
  p:step(table_of(1, tokens, 4))
  local sent, placed = {}, p:stage "place"
  for rank, t in ipairs(p:traffic()) do sent[rank] = t.sent end
  p:close()
  local stream, blocks = tokens * WIDTH / 2, 2 * m.layers
  -- table, blocks, head, (lse, logit), loss
  local forward = stream + 2 * blocks * stream + stream + 2 * tokens / 2 + 1
  local backward = tokens / 2 + stream + 2 * blocks * stream + stream -- lse again, head, blocks, table
  local update_ = (blocks + 1) * WIDTH + 1 -- gradients of norms, the norm of all
  return sent, 8 * (forward + backward + update_), placed
end

-- Bytes a rank sends in a step of one sequence of `tokens` tokens on a layout, without the update, and the graph as it
-- was placed.
function decoders.traffic(m, tokens, layout)
  local p = lt.program {
    dtype = "f64", ranks = layout.ranks, mesh = layout.mesh, exchange = layout.exchange, inner = layout.inner,
    block = 1,
    partition = "contiguous", tokens = tokens, sequences = 1, length = tokens,
    build = function(ctx)
      lt.nn.build(ctx, m)
      lt.optim.build(ctx, update(0))
    end,
  }
  p:step(table_of(1, tokens, 4))
  local sent, placed = {}, p:stage "place"
  for rank, t in ipairs(p:traffic()) do sent[rank] = t.sent end
  p:close()
  return sent, placed
end

-- Bytes of the largest rank of a layout planned for 12 sequences of 80 tokens: { states, rest }
function decoders.plan(m, layout)
  local p = lt.program {
    dtype = "f64", ranks = layout.ranks, mesh = layout.mesh, block = 1, tokens = 960, sequences = 12, length = 80,
    build = function(ctx)
      lt.nn.build(ctx, m)
      lt.optim.build(ctx, update(0))
    end,
  }
  local out = { states = 0, rest = 0 }
  for _, r in ipairs(p:memory().ranks) do
    out.states, out.rest = math.max(out.states, r.states), math.max(out.rest, r.arena - r.states)
  end
  p:close()
  return out
end

local function is_far(d, close) return d ~= d or d > close end

-- The first thing in which two runs differ by more than `close` of its largest magnitude, as text; nil: nothing.
function decoders.difference(one, many, close)
  for _, key in ipairs { "loss", "norm" } do
    for step, x in ipairs(one[key]) do
      local d = math.abs(many[key][step] - x) / math.abs(x)
      if is_far(d, close) then return ("%s of step %d: off by %g"):format(key, step, d) end
    end
  end
  for _, key in ipairs { "gradient", "after" } do
    for name, x in pairs(one[key]) do
      local y = many[key][name]
      local d = y and y:max_abs_difference(x) / x:max_abs() or math.huge
      if is_far(d, close) then return ("%s of %s: off by %g"):format(key, name, d) end
    end
    for name in pairs(many[key]) do if not one[key][name] then return name .. " is not there on one rank" end end
  end
end

-- One rank's run of a model, made once; everything in it is there and not zero.
local made = {}
function decoders.one(m)
  if not made[m] then
    local got, memory = decoders.run(m, {})
    for step = 1, #decoders.steps do assert(got.loss[step] > 1 and got.norm[step] > 0.1, "a dead model") end
    for _, key in ipairs { "gradient", "after" } do
      for name, x in pairs(got[key]) do assert(x:max_abs() > 0, name .. " is zero") end
    end
    made[m] = { got, memory }
  end
  return made[m][1], made[m][2]
end

-- "dp 2, tp 2, shard 1, 4 units, layers"
function decoders.text(layout)
  local parts = {}
  for _, axis in ipairs { "dp", "sp", "tp" } do
    if layout.mesh[axis] then parts[#parts + 1] = axis .. " " .. layout.mesh[axis] end
  end
  if layout.order then parts[#parts + 1] = "order " .. table.concat(layout.order, " ") end
  if (layout.shard or 0) > 0 then parts[#parts + 1] = "shard " .. layout.shard end
  if (layout.units or 1) > 1 then parts[#parts + 1] = layout.units .. " units" end
  if layout.checkpoint then parts[#parts + 1] = layout.checkpoint end
  if layout.block then parts[#parts + 1] = "block " .. layout.block end
  if layout.exchange then
    local x = layout.exchange
    parts[#parts + 1] = type(x) == "table" and table.concat(x, " ") or x
  end
  for _, key in ipairs { "inner", "max_depth" } do
    if layout[key] then parts[#parts + 1] = key .. " " .. layout[key] end
  end
  if layout.partition then parts[#parts + 1] = tostring(layout.partition) end
  return table.concat(parts, ", ")
end

-- Run a layout, hold it against one rank; → memory, traffic
function decoders.check(m, layout)
  local ranks = 1
  for _, n in pairs(layout.mesh) do ranks = ranks * n end
  layout.ranks = ranks
  local ok, got, memory, traffic = pcall(decoders.run, m, layout)
  if not ok then error(decoders.text(layout) .. ": " .. tostring(got), 0) end
  local fault = decoders.difference(decoders.one(m), got, 1e-10)
  if fault then error(decoders.text(layout) .. ": " .. fault, 0) end
  return memory, traffic
end

return decoders
