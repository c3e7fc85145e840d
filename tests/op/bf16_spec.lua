-- bf16_spec.lua: every operation that computes in bf16, value and gradients, against double from the same inputs;
-- and some that have no kernel for bf16, which must be as near. Inputs are bf16 numbers, so only the computing differs.
local lt = require "ltrain"
local op = lt.op

local ROWS, WIDTH, HEADS = 13, 24, 3
local CLOSE = 1.6e-2 -- of a tensor's largest magnitude: a few roundings of 2^-9 each

local function input(name, shape, scale)
  local n, draw, x = 1, lt.random(7, name), {}
  for _, d in ipairs(shape) do n = n * d end
  for i = 1, n do x[i] = scale * draw:normal() end
  return lt.tensor(x, "bf16"):reshape(shape)
end

-- apply(x, y, p, ctx): x, and y if it has that name, are fed [tokens, WIDTH]; p(name, shape) is a parameter.
local cases = {
  matmul = function(x, _, p) return op.matmul(x, p("w", { 16, WIDTH }), { trans_b = true }) end,
  ["matmul twice"] = function(x, y, p)
    local h = op.silu(op.matmul(x + y, p("w", { 40, WIDTH }), { trans_b = true }))
    return x + op.matmul(h, p("v", { WIDTH, 40 }), { trans_b = true })
  end,
  add = function(x, y, p) return op.gelu(x) + op.gelu(y) + p("b", { WIDTH }) end,
  mul = function(x, y, p) return op.gelu(x) * op.gelu(y) * p("b", { WIDTH }) end,
  sub = function(x, y) return op.gelu(x) - op.gelu(y) end,
  div = function(x, y) return op.gelu(x) / (op.sigmoid(y) + 1) end,
  maximum = function(x, y) return op.maximum(op.gelu(x), op.gelu(y)) end,
  neg = function(x) return op.neg(op.gelu(x)) end,
  abs = function(x) return op.abs(op.gelu(x)) end,
  tanh = function(x) return op.tanh(op.gelu(x)) end,
  sigmoid = function(x) return op.sigmoid(op.gelu(x)) end,
  silu = function(x) return op.silu(op.gelu(x)) end,
  relu = function(x) return op.relu(op.gelu(x)) end,
  scale = function(x) return op.scale(op.gelu(x), { alpha = 3, beta = 0.5 }) end,
  gelu = function(x) return op.gelu(x) end,
  swiglu = function(x, y) return op.swiglu(x, y) end,
  softcap = function(x) return op.softcap(x, { cap = 2 }) end,
  rmsnorm = function(x, _, p) return (op.rmsnorm(x, p("g", { WIDTH }))) end,
  layernorm = function(x, _, p) return (op.layernorm(x, p("g", { WIDTH }), p("b", { WIDTH }))) end,
  rope = function(x, _, _, ctx) return op.rope(x, ctx:feed "position", { head_dim = WIDTH / HEADS }) end,
  attention = function(x, y, p, ctx)
    local at, document = ctx:feed "position", ctx:feed "document"
    local v = op.matmul(x, p("v", { WIDTH, WIDTH }), { trans_b = true })
    return (op.attention(x, y, v, at, document, at, document, ctx:spans(0, 4), { head_dim = WIDTH / HEADS, block = 4 }))
  end,
  dropout = function(x, _, _, ctx) return op.dropout(op.gelu(x), ctx:feed "ordinal", { p = 0.3, stream = "d" }) end,
  shapes = function(x)
    local h = op.permute(op.split_dim(op.gelu(x), { dim = 1, inner = 8 }), { d0 = 0, d1 = 2, d2 = 1 })
    return op.merge_dims(op.concat(op.slice(h, { dim = 1, first = 2, count = 6 }), h, { dim = 1 }), { dim = 1 })
  end,
  ["softmax, which has no kernel"] = function(x) return op.softmax(op.gelu(x)) * 3 end,
  ["exp and log, which have none"] = function(x) return op.log(op.exp(op.gelu(x)) + 1) end,
  ["a mean over features, which has none"] = function(x, y)
    return op.gelu(x) * op.expand(op.mean(op.gelu(y), { dim = 1, keep = true }), { dim = 1, count = WIDTH })
  end,
}

local function run(dtype, apply)
  local params, held = {}, dtype == "f64" and "f64" or "f32"
  local inputs = debug.getlocal(apply, 2) == "y" and { "x", "y" } or { "x" }
  local step_table = lt.data.tensors { tokens = lt.tensor.zeros({ 1, ROWS }, "i32") }
  local program = lt.program {
    dtype = dtype, tokens = ROWS, sequences = 1, length = ROWS, seed = 3,
    build = function(ctx)
      params = {}
      local function feed(name)
        local v = ctx:feed(name, { dtype = "real", tokens = true, d1 = WIDTH, granule = WIDTH / HEADS })
        ctx:want(v, "grad_" .. name)
        return v
      end
      local x, y = feed "x", inputs[2] and feed "y"
      local function p(name, shape)
        params[#params + 1] = { name, shape }
        return ctx:param(name, shape, { init = "zeros" })
      end
      local out = apply(x, y, p, ctx)
      ctx:output("out", out)
      local weight = ctx:feed("weight_out", { dtype = "real", tokens = true, d1 = out.width })
      ctx:loss(op.sum(op.mul(out, weight), { dim = -1 }))
      ctx.builder:phase "update"
      for _, q in ipairs(params) do ctx:output("grad_" .. q[1], ctx.builder:gradient(ctx.builder:find(q[1]))) end
      ctx.builder:phase "forward"
    end,
  }
  for _, name in ipairs(inputs) do program:bind(name, input(name, { ROWS, WIDTH }, 1):cast(held)) end
  for _, q in ipairs(params) do program:write(q[1], input(q[1], q[2], 0.4):cast(held)) end
  local width = program:output("out").shape[2]
  program:bind("weight_out", input("weight", { ROWS, width }, 1):cast(held))
  program:step(step_table)
  local got = { out = program:output("out"):cast "f64" }
  for _, name in ipairs(inputs) do got[name] = program:output("grad_" .. name):cast "f64" end
  for _, q in ipairs(params) do got[q[1]] = program:output("grad_" .. q[1]):cast "f64" end
  local placed = program:stage "place"
  program:close()
  return got, placed
end

local names = {}
for name in pairs(cases) do names[#names + 1] = name end
table.sort(names)

describe("in bf16, with its gradient,", function()
  for _, name in ipairs(names) do
    it(name, function()
      local want, got, placed = run("f64", cases[name]), run("bf16", cases[name])
      local most = 0
      for key, x in pairs(want) do
        if x:max_abs() > 0 then
          local off = got[key]:max_abs_difference(x) / x:max_abs()
          most = math.max(most, off)
          assert.is_true(off <= CLOSE, string.format("%s: off by %g", key, off))
        else
          assert.equal(0, got[key]:max_abs(), key)
        end
      end
      assert.is_true(want.out:max_abs() > 0 and most > 0, "nothing was computed in bf16")
      assert.matches("bf16", placed)
    end)
  end
end)
