-- graph_spec.lua: building graphs from Lua: operations, arithmetic, handles, and misuse told at the caller's line.
local op = lt.op

-- Build with a function and return the graph as text; the build stage prints it before any pass.
local function build(f)
  local text
  local p = lt.program { tokens = 8, sequences = 2, length = 4, build = function(ctx)
    f(ctx)
    text = ctx.builder:text()
  end }
  p:close()
  return text
end

-- A loss, so that the graph is one: the sum of squares of a parameter.
local function anchor(ctx)
  local w = ctx:param("w", { 2, 3 }, { init = 1 })
  ctx:loss(op.sum(op.square(w), { dim = -1 }))
  return w
end

local function fails(f, pattern)
  local ok, e = pcall(build, function(ctx) f(ctx, anchor(ctx)) end)
  assert.is_false(ok)
  assert.matches(pattern, e.what)
  return e
end

describe("operations", function()
  it("are all there, each with a line of documentation", function()
    local known = lt.ops()
    assert.is_true(#known > 60)
    for _, o in ipairs(known) do
      assert.is_function(op[o.name])
      assert.is_true(#o.doc > 0, o.name)
      for _, a in ipairs(o.attributes) do assert.is_true(#a.doc > 0, o.name .. "." .. a.name) end
    end
    assert.is_nil(op.all_reduce) -- inserted by passes, not for callers
  end)
  it("take inputs in order and attributes by name", function()
    local text = build(function(ctx)
      local w = anchor(ctx)
      op.output(op.scale(w, { alpha = 3, beta = 1 }), { name = "y" })
    end)
    assert.matches("scale%(%%0 w; alpha=3, beta=1%)", text)
    assert.matches('output%(%%%d+; name="y"%)  %-%- .-graph_spec.lua:%d+', text)
  end)
  it("are what arithmetic on values means", function()
    local text = build(function(ctx)
      local w = anchor(ctx)
      local y = (w + w) * 2 - w / 4 + 1 - (3 - w) * (1 / w) - -w
      assert.same({ 2, 3 }, y.shape)
      op.output(y, { name = "y" })
    end)
    assert.matches("add%(%%0 w, %%0 w%)", text)
    assert.matches("scale%(%%%d+; alpha=2, beta=0%)", text)
    assert.matches("scale%(%%0 w; alpha=0.25, beta=0%)", text)
    assert.matches("scale%(%%0 w; alpha=%-1, beta=3%)", text)
    assert.matches("reciprocal%(%%0 w%)", text)
  end)
  it("return as many values as they have", function()
    build(function(ctx)
      local w = anchor(ctx)
      local n, values = select("#", op.rmsnorm(w, ctx:param("g", { 3 }))), { op.rmsnorm(w, ctx:param("h", { 3 })) }
      assert.equal(2, n)
      assert.same({ 2 }, values[2].shape)
      assert.equal(0, select("#", op.output(w, { name = "w" })))
    end)
  end)
  it("tell misuse at the caller's line", function()
    local line = debug.getinfo(1, "l").currentline
    local wrong = { alhpa = 3 }
    local e = fails(function(_, w) op.scale(w, wrong) end, "scale has no attribute 'alhpa'; did you mean 'alpha'?")
    assert.matches("graph_spec.lua:" .. line + 2 .. "$", e.where)
    fails(function(_, w) op.scale(w, { alpha = "three" }) end, "scale: alpha .- must be a number, not string")
    fails(function(_, w) op.add(w, 3, w) end, "add: input 2 must be a value, not number")
    fails(function(_, w) op.top_k(w) end, "top_k needs the attribute k")
    e = fails(function(ctx, w) op.matmul(w, ctx:param("u", { 4, 5 })) end, "matmul")
    assert.matches("graph_spec.lua:" .. line + 7 .. "$", e.where)
    fails(function(ctx) ctx:param("w", { 1 }) end, 'there is already a parameter or buffer named "w"')
    fails(function(ctx) ctx:param("v", { 0 }) end, "an extent must be at least 1, not 0")
    fails(function(ctx, w) ctx:loss(w) end, "a loss must be a scalar")
    fails(function(ctx) ctx:param("v", { 4 }, { init = "random" }) end, "init is not known")
  end)
  it("belong to the build at hand", function()
    assert.error_matches(function() op.fill { value = 1 } end, "no graph is being built")
    local kept
    build(function(ctx) kept = anchor(ctx) end)
    assert.error_matches(function() return kept.shape end, "a graph that has been built")
    fails(function() return kept + 1 end, "belongs to a graph that has been built")
  end)
  it("may be called under pcall, but a failed graph stays failed", function()
    local ok, e = pcall(build, function(ctx)
      local w = anchor(ctx)
      pcall(op.matmul, w, w)
      op.output(w, { name = "w" })
    end)
    assert.is_false(ok)
    assert.matches("matmul", tostring(e))
  end)
end)

describe("the context", function()
  it("names parameters and scopes by where they are made", function()
    local text = build(function(ctx)
      anchor(ctx)
      ctx:scope("outer", function()
        local x = ctx:param("a", { 2, 3 })
        ctx:scope("inner", function() ctx:output("y", ctx:linear("proj", x, 5, { bias = true })) end)
      end)
    end)
    assert.matches('"outer%.a" f32%[2, 3%]', text)
    assert.matches('"outer%.inner%.proj%.weight" f32%[5, 3%]', text)
    assert.matches('"outer%.inner%.proj%.bias" f32%[5%]', text)
    assert.matches("forward outer/inner\n", text)
  end)
  it("makes one feed of each column, outside of any layer", function()
    local text = build(function(ctx)
      anchor(ctx)
      ctx:scope("layer 0", function()
        ctx:output("a", ctx:feed "token")
        ctx:output("b", ctx:feed "token")
      end)
    end)
    local _, n = text:gsub('feed%(name="token"', "")
    assert.equal(1, n)
  end)
  it("leaves dropout out of evaluation", function()
    local function dropouts(training)
      local seen
      local p = lt.program { tokens = 4, length = 4, backward = training, build = function(ctx)
        anchor(ctx)
        local x = op.embedding(ctx:feed "token", ctx:param("e", { 9, 3 }))
        ctx:output("y", ctx:dropout(x, 0.5))
        seen = ctx.builder:text()
      end }
      p:close()
      return select(2, seen:gsub("dropout%(", ""))
    end
    assert.equal(1, dropouts(true))
    assert.equal(0, dropouts(false))
  end)
end)
