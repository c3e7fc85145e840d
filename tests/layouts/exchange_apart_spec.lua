-- exchange_apart_spec.lua: by every exchange, documents are apart to the bit, even one of NaN; scores of 1e4 are finite
-- and right; gradients of keys that other ranks hold are the loss's slope; and rounding does not grow with the ranks.
local lt = require "ltrain"
local attentions = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/attentions.lua")
local few = attentions.few

local function layout_of(exchange, sp, dtype)
  return { mesh = { sp = sp }, ranks = sp, exchange = exchange, inner = sp % 2 == 0 and 2 or 1, partition = "zigzag",
    dtype = dtype, heads = few }
end

describe("a document", function()
  local step = attentions.table_of(41, { mean = 9, seed = 5 })
  local first, last -- of a document in the middle
  local documents = step.document[41] + 1
  for i = 1, 41 do
    if step.document[i] == math.floor(documents / 2) then first, last = first or i, i end
  end

  -- All arrays with f of each number in that document's rows.
  local function changed(f)
    local fed = {}
    for name, x in pairs(attentions.arrays(few, step)) do
      local width, data = x.shape[2], x:flat()
      for i = (first - 1) * width + 1, last * width do data[i] = f(data[i]) end
      fed[name] = lt.tensor(data, "f64"):reshape { 41, width }
    end
    return fed
  end
  local function others_same(one, two, what)
    for name, x in pairs(one) do
      local y = two[name]
      assert.is_true(x:rows(1, first - 1):equal(y:rows(1, first - 1)), what .. " before: " .. name)
      assert.is_true(x:rows(last + 1, 41 - last):equal(y:rows(last + 1, 41 - last)), what .. " after: " .. name)
      assert.is_false(x:rows(first, last - first + 1):equal(y:rows(first, last - first + 1)), what .. ": " .. name)
    end
  end

  it("moves no bit of another, not even as NaN", function()
    assert.is_true(documents >= 3 and first > 1 and last < 41 and last > first)
    for _, exchange in ipairs(attentions.names) do
      local p = attentions.program(layout_of(exchange, 4, "f32"), attentions.most { step })
      local one = attentions.step(p, few, step, "f32")
      others_same(one, attentions.step(p, few, step, "f32", changed(function(x) return 1 - 2 * x end)), exchange)
      others_same(one, attentions.step(p, few, step, "f32", changed(function() return 0 / 0 end)), exchange .. ", NaN")
      local again = attentions.step(p, few, step, "f32")
      for name, x in pairs(one) do assert.is_true(x:equal(again[name]), exchange .. " afterwards: " .. name) end
      p:close()
    end
  end)
end)

describe("scores of 1e4", function()
  it("are finite, and as on one rank", function()
    local steps = { attentions.table_of(37, {}), attentions.table_of(40, { mean = 11 }) }
    for _, s in ipairs(steps) do s.scale = 3e4 end
    for _, exchange in ipairs(attentions.names) do
      attentions.check(layout_of(exchange, 4), steps)
      local p = attentions.program(layout_of(exchange, 4, "f32"), attentions.most(steps))
      for name, x in pairs(attentions.step(p, few, steps[1], "f32")) do
        assert.is_true(x:max_abs() < 1e6, exchange .. ": " .. name) -- and no NaN
        if name:match "^lse" then assert.is_true(x:max_abs() > 1e4, exchange) end
      end
      p:close()
    end
  end)
end)

describe("the gradient of keys and values that another rank holds", function()
  it("is the slope of the loss", function()
    local step, h = attentions.table_of(17, {}), few[1]
    for _, exchange in ipairs(attentions.names) do
      local layout = layout_of(exchange, 4)
      layout.partition = "contiguous"
      local p = attentions.program(layout, attentions.most { step })
      local gradient = attentions.step(p, few, step)
      for _, what in ipairs { "k", "v" } do
        local name = attentions.name(h, what)
        for _, token in ipairs { 1, 5, 9 } do -- seen by the ranks after
          local function loss(d)
            local fed = {}
            for n, x in pairs(attentions.arrays(few, step)) do fed[n] = x end
            local data = fed[name]:flat()
            data[token * attentions.dim] = data[token * attentions.dim] + d
            fed[name] = lt.tensor(data, "f64"):reshape(fed[name].shape)
            attentions.step(p, few, step, "f64", fed)
            return p:output("loss"):number()
          end
          local slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
          local got = gradient["grad " .. what .. name:sub(2)]:get(token, attentions.dim)
          assert.is_true(math.abs(slope) > 1e-3 and math.abs(got - slope) <= 1e-7 * math.max(1, math.abs(slope)),
            ("%s, %s, token %d: %g, not %g"):format(exchange, name, token, got, slope))
        end
      end
      p:close()
    end
  end)
end)

describe("rounding", function()
  local heads = { { kv = 2, q = 4, window = 0 }, { kv = 3, q = 3, window = 40 } }
  local step = attentions.table_of(320, { mean = 200, seed = 2 })
  local function run(exchange, sp, dtype)
    local layout = layout_of(exchange, sp, dtype)
    layout.heads = heads
    local p = attentions.program(layout, attentions.most { step })
    local got = attentions.step(p, heads, step, dtype)
    p:close()
    return got
  end
  for _, dtype in ipairs { "f32", "bf16" } do
    it("is on 2, 4 and 8 ranks at most 1.25 times that on one, in " .. dtype, function()
      local fed, rounded = attentions.arrays(heads, step), {}
      for name, x in pairs(fed) do rounded[name] = x:cast(dtype):cast "f64" end
      local p = attentions.program({ heads = heads }, attentions.most { step })
      local exact = attentions.step(p, heads, step, "f64", rounded)
      p:close()
      -- Root of the mean square of all tensors, each against its own largest magnitude.
      local function errors(got)
        local sum, n = 0, 0
        for name, x in pairs(exact) do
          local a, b, most = x:flat(), got[name]:cast("f64"):flat(), x:max_abs()
          for i = 1, #a do sum, n = sum + ((a[i] - b[i]) / most) ^ 2, n + 1 end
        end
        return math.sqrt(sum / n)
      end
      local one = errors(run("all_gather", 1, dtype))
      assert.is_true(one > 0)
      for _, exchange in ipairs(attentions.hops) do
        for _, sp in ipairs { 2, 4, 8 } do
          local e = errors(run(exchange, sp, dtype))
          assert.is_true(e <= 1.25 * one, ("%s on %d ranks: %g, %g on one"):format(exchange, sp, e, one))
        end
      end
    end)
  end
end)
