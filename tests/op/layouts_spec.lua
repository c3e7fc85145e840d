-- layouts_spec.lua: small graphs of the basic operations through all passes, in double, on several ranks against one:
-- an output, the gradients by an input and by a weight. Tokens are seven sequences of one, or one sequence of seven.
local op = lt.op
local ROWS, WIDTH = 7, 6

-- Fixed numbers, no two alike and none zero.
local function numbers(rows, columns, seed)
  local t = {}
  for i = 1, rows * columns do t[i] = math.sin(seed + 1.7 * i) + 0.05 end
  return lt.tensor(t, "f64"):reshape { rows, columns }
end

-- One step of loss = sum(y^2 / 2 + y), y = apply(x, w), x [tokens, 6], w [6, 6].
local function run(apply, mesh, ranks, units)
  local shape = mesh.sp and not mesh.dp and { 1, ROWS } or { ROWS, 1 }
  local t = lt.data.tensors { tokens = lt.tensor.zeros(shape, "i32") }
  local p = lt.program {
    dtype = "f64", ranks = ranks, mesh = mesh, units = units, tokens = t.tokens, sequences = t.sequences,
    length = t.longest, block = 1,
    build = function(ctx)
      local x = ctx:feed("x", { dtype = "real", tokens = true, d1 = WIDTH })
      local w = ctx:param("w", { WIDTH, WIDTH }, { init = "zeros", tp = "out" })
      ctx:want(x, "grad_x")
      local y = apply(x, w)
      ctx:output("y", y)
      ctx:loss(op.sum(y * y * 0.5 + y, { dim = -1 }))
      ctx.builder:phase "update"
      ctx:output("grad_w", ctx.builder:gradient(ctx.builder:find "w"))
      ctx.builder:phase "forward"
    end,
  }
  p:bind("x", numbers(ROWS, WIDTH, 1))
  p:write("w", numbers(WIDTH, WIDTH, 2))
  p:step(t)
  local got = { y = p:output "y", grad_x = p:output "grad_x", grad_w = p:output "grad_w" }
  p:close()
  return got
end

local function linear(x, w) return op.matmul(x, w, { trans_b = true }) end

-- A sum or maximum over tokens is one of a unit: those graphs are not the same in several units.
local one_unit = { ["a sum over tokens"] = true, ["a maximum over tokens"] = true, ["a scalar of everything"] = true }

local graphs = {
  product = linear,
  ["arithmetic with broadcasting"] = function(x, w)
    local y, bias = linear(x, w), op.sum(w, { dim = 0 })
    return (y + bias) * op.sigmoid(y) - x / op.exp(op.sum(x, { dim = 1, keep = true }) * 0.1)
  end,
  ["maximum, minimum, comparison"] = function(x, w)
    local y = linear(x, w)
    return op.maximum(x, y) * op.minimum(op.abs(y), op.square(x)) + op.relu(y) * op.greater(x, y)
  end,
  ["every map of one operand"] = function(x, w)
    local y = op.square(linear(x, w)) + 0.5
    return op.sqrt(y) + op.rsqrt(y) + op.log(y) + op.reciprocal(y) + op.tanh(y) + op.silu(x) - op.neg(x) * op.sign(y)
  end,
  ["a sum over tokens"] = function(x, w) return x * op.sum(linear(x, w), { dim = 0 }) * 0.1 end,
  ["a maximum over tokens"] = function(x, w) return x * op.max(linear(x, w), { dim = 0, keep = true }) end,
  ["the largest of a row, the mean of a row"] = function(x, w)
    local y = linear(x, w)
    return y - op.max(y, { dim = 1, keep = true }) * op.mean(y * y, { dim = 1, keep = true })
  end,
  ["a scalar of everything"] = function(x, w)
    local y = linear(x, w)
    return y * op.sum(y, { dim = -1 }) * 0.01 + op.max(y, { dim = -1 })
  end,
  ["heads split, permuted, merged"] = function(x, w)
    local heads = op.split_dim(linear(x, w), { dim = 1, inner = 2 })
    local turned = op.permute(op.exp(heads), { d0 = 0, d1 = 2, d2 = 1 })
    return op.merge_dims(turned, { dim = 1 }) * x
  end,
  ["columns cut, joined, padded"] = function(x, w)
    local y = linear(x, w)
    local left = op.slice(y, { dim = 1, first = 0, count = 2 })
    local rest = op.slice(y, { dim = 1, first = 2, count = 4 })
    return op.concat(rest, left, { dim = 1 }) + op.pad(left, { dim = 1, before = 3, after = 1 }) * x
  end,
  ["a column repeated"] = function(x, w)
    local column = op.sum(linear(x, w), { dim = 1, keep = true })
    return op.expand(column, { dim = 1, count = WIDTH }) * x
  end,
  ["a constant, a cast, a long sum"] = function(x, w)
    local y, parts = linear(x, w), {}
    for i = 1, 5 do parts[i] = y * i end
    local ones = op.fill { value = 1, tokens = true, d0 = WIDTH }
    return op.add_n(unpack(parts)) + op.cast(op.cast(ones * 3, { dtype = "i32" }), { dtype = "real" }) * x
  end,
}

local layouts = {
  { "dp 2", { dp = 2 }, 2 }, { "dp 3", { dp = 3 }, 3 }, { "dp 4", { dp = 4 }, 4 },
  { "sp 2", { sp = 2 }, 2 }, { "sp 3", { sp = 3 }, 3 }, { "dp 2, sp 2", { dp = 2, sp = 2 }, 4 },
  { "dp 4, ep 2", { dp = 4, ep = 2 }, 4 },
  { "three units", { dp = 1 }, 1, 3 }, { "dp 2 in two units", { dp = 2 }, 2, 2 },
}

describe("basic operations on several ranks", function()
  local names = {}
  for name in pairs(graphs) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("agree with one rank: " .. name, function()
      local one = run(graphs[name], { dp = 1 }, 1)
      for _, key in ipairs { "y", "grad_x", "grad_w" } do assert.is_true(one[key]:max_abs() > 0, key .. " is zero") end
      for _, layout in ipairs(layouts) do
        local same = not (layout[4] and one_unit[name])
        local many = same and run(graphs[name], layout[2], layout[3], layout[4])
        for key, value in pairs(same and one or {}) do
          local difference = many[key]:max_abs_difference(value) / value:max_abs()
          assert.is_true(difference < 1e-12, ("%s, %s: off by %g"):format(layout[1], key, difference))
        end
      end
    end)
  end
end)
