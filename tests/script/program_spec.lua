-- program_spec.lua: lt.program: graphs compiled and stepped from a script, on one rank and on several.
local op = lt.op

local function text_table(step)
  local tokens, labels = {}, {}
  for row = 1, 5 do
    tokens[row], labels[row] = {}, {}
    for i = 1, 12 do
      tokens[row][i] = (row * 7 + i * i) % 11
      labels[row][i] = (i % 5 == 0 or row == 4) and -1 or (row * 7 + (i + 1) * (i + 1)) % 11
    end
  end
  return lt.data.tensors { tokens = tokens, labels = labels, vocab = 11, step = step }
end

local model = lt.check(lt.nn.decoder {
  vocab = 11, width = 16, layers = 2, heads = 4, kv_heads = 2, dropout = 0.1, chunk = 8,
  attention = { window = { 5, false }, block = 4 },
}, "model")
local update = lt.check(lt.optim.adamw { lr = 0.01 }, "optim")

local function decoder(options)
  local given = { dtype = "f64", ranks = 1, seed = 5, tokens = 60, sequences = 5, length = 12, build = function(ctx)
    lt.nn.build(ctx, model)
    if options.backward ~= false then lt.optim.build(ctx, update) end
  end }
  for key, value in pairs(options) do given[key] = value end
  return lt.program(given)
end

local function train(p, steps)
  local losses = {}
  p:control("lr", 0.01)
  for step = 1, steps do
    p:control("optim_t", step)
    p:step(text_table(step - 1))
    losses[step] = p:output("loss"):number()
  end
  return losses
end

describe("a program", function()
  it("learns", function()
    local p = decoder {}
    local losses = train(p, 30)
    assert.near(math.log(11), losses[1], 0.1)
    assert.is_true(losses[30] < losses[1] - 0.5)
    assert.is_true(p:output("grad_norm"):number() > 0)
    assert.equal(30, p:at())
  end)
  it("gives the same bits when run twice, others for another seed", function()
    local a, b, c = train(decoder {}, 3), train(decoder {}, 3), train(decoder { seed = 6 }, 3)
    assert.same(a, b)
    assert.not_equal(a[1], c[1])
  end)
  it("says what its items took, and forgets it", function()
    local p = decoder { ranks = 2, mesh = { dp = 2 } }
    train(p, 2)
    for rank = 0, 1 do
      local items, whole = p:times(rank)
      local seconds, ops = 0, {}
      for _, item in ipairs(items) do
        assert.equal(2, item.steps)
        seconds = seconds + item.seconds
        ops[item.op] = (ops[item.op] or 0) + item.flops + item.bytes
      end
      assert.is_true(seconds > 0 and whole > 0 and ops.matmul > ops.add and ops.all_reduce > 0)
      assert.equal(p:memory().ranks[rank + 1].items, #items)
    end
    local again, whole = p:times()
    assert.equal(0, again[1].steps + again[1].seconds + whole)
    assert.error_matches(function() p:times(2) end, "rank 2 does not run here")
  end)
  it("says what its items move that no item before them moved", function()
    local p = decoder {}
    train(p, 1)
    local bytes, once = {}, {}
    for _, item in ipairs(p:times()) do
      assert.is_true(item.once >= 0 and item.once <= item.bytes)
      bytes[item.op], once[item.op] = (bytes[item.op] or 0) + item.bytes, (once[item.op] or 0) + item.once
    end
    assert.near(5 / 7, once.adamw / bytes.adamw, 0.02) -- parameters were read, and gradients: by their norm
    assert.near(1, once.sumsq / bytes.sumsq, 0.02) -- gradients were written, not read
    assert.is_true(once.matmul < bytes.matmul and once.matmul > 0)
    assert.is_true(once.swiglu == bytes.swiglu and once.swiglu > 0)
  end)
  it("gives the same losses on 2 and 3 ranks, and in units", function()
    local whole = train(decoder {}, 4)
    for _, options in ipairs { { ranks = 2, mesh = { dp = 2 } }, { ranks = 3, mesh = { dp = "auto" } }, { units = 2 },
      { ranks = 2, mesh = { dp = 2 }, units = 3 } } do
      local other = train(decoder(options), 4)
      for i = 1, 4 do assert.near(whole[i], other[i], 1e-10) end
    end
  end)
  it("gives the same losses for every kind of decoder on every mesh", function()
    local kinds = {
      gelu = { ffn = lt.nn.gelu {}, norm = "layernorm" }, tied = { tied = true }, bare = { layers = 0 },
      scaled = { attention = { block = 4, rope = { scaling = "yarn", factor = 2, original_length = 8 } } },
      still = { attention = { block = 4, rope = false }, dropout = 0.2 },
      own = { ffn = function(x, ctx)
        local h = op.square(op.relu(ctx:linear("up", x, 40)))
        return ctx:linear("down", h, x.width, { residual = true })
      end },
    }
    local meshes = { { dp = 3 }, { sp = 2 }, { tp = 2 }, { tp = 3 }, { dp = 2, sp = 2 } }
    for name, fields in pairs(kinds) do
      local m = { vocab = 11, width = 16, layers = 2, heads = 4, kv_heads = 2, chunk = 8 }
      for key, value in pairs(fields) do m[key] = value end
      m = lt.check(lt.nn.decoder(m), "model")
      local function losses(mesh)
        local ranks = (mesh.dp or 1) * (mesh.sp or 1) * (mesh.tp or 1)
        local p = decoder { ranks = ranks, mesh = mesh, block = 1, build = function(ctx)
          lt.nn.build(ctx, m)
          lt.optim.build(ctx, update)
        end }
        local l = train(p, 3)
        p:close()
        return l
      end
      local one = losses {}
      assert.is_true(one[3] < one[1])
      for _, mesh in ipairs(meshes) do
        for i, loss in ipairs(losses(mesh)) do assert.near(one[i], loss, 1e-10, name) end
      end
    end
  end)
  it("gives the same bits whatever layers keep, in less memory the less they do", function()
    local kept = decoder {}
    local losses, peak, seconds = train(kept, 3), kept:memory().peak, kept:memory().seconds
    for _, mode in ipairs { "cheap", "attention", "layers" } do
      local again = decoder { checkpoint = mode }
      assert.same(losses, train(again, 3))
      local memory = again:memory()
      assert.is_true(memory.peak < peak, mode)
      assert.is_true(memory.seconds > seconds, mode)
      assert.equal(2, memory.layers_recomputed)
      peak, seconds = memory.peak, memory.seconds
    end
  end)
  it("splits the work over ranks", function()
    local p = decoder { ranks = 3, mesh = { dp = 3 } }
    local one, ranks = decoder({}):memory(), p:memory().ranks
    assert.equal(3, #ranks)
    for _, r in ipairs(ranks) do
      assert.is_true(r.arena - r.states < one.peak - one.ranks[1].states)
      assert.is_true(r.arena >= r.live)
    end
  end)
  it("evaluates without dropout, with parameters of another program", function()
    local p, q = decoder {}, decoder { backward = false, ranks = 2, mesh = { dp = 2 } }
    train(p, 2)
    for _, s in ipairs(p:states()) do if s.role == "param" then q:write(s.name, p:read(s.name)) end end
    q:step(text_table(0))
    local first = q:output("loss"):number()
    q:step(text_table(1)) -- another step number: other dropout masks, were there any
    assert.equal(first, q:output("loss"):number())
    assert.error_matches(function() q:output "grad_norm" end, "the graph has no output 'grad_norm'")
  end)
  it("reads, writes and binds tensors", function()
    local p = lt.program { tokens = 4, length = 4, build = function(ctx)
      local w = ctx:param("w", { 3 }, { init = { constant = 2 } })
      local x = ctx:feed("x", { dtype = "real", tokens = true, d1 = 3 })
      local y = op.mul(x, w)
      ctx:want(x, "dx")
      ctx:output("y", y)
      ctx:loss(op.sum(y, { dim = -1 }))
    end }
    local t = lt.data.tensors { tokens = { { 0, 0, 0, 0 } } }
    local x = lt.tensor { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 10, 11, 12 } }
    p:bind("x", x)
    p:step(t)
    assert.same({ 2, 4, 6 }, p:output("y"):table()[1])
    p:write("w", lt.tensor { 1, 0, -1 })
    assert.same({ 1, 0, -1 }, p:read("w"):table())
    p:step(t)
    assert.same({ 10, 0, -12 }, p:output("y"):table()[4])
    assert.same({ 1, 0, -1 }, p:output("dx"):table()[2])
    assert.error_matches(function() p:bind("z", x) end, "z")
    assert.error_matches(function() p:write("w", lt.tensor { 1 }) end, "w")
    assert.error_matches(function() p:read "v" end, "v")
    p:close()
    assert.error_matches(function() p:step(t) end, "the program is closed")
  end)
  it("shows every stage", function()
    local p = decoder { ranks = 2, mesh = { dp = 2 } }
    for _, name in ipairs { "build", "differentiate", "place", "exchange", "checkpoint", "lower", "order", "memory",
      "transfers", "verify" } do
      assert.is_true(#p:stage(name, 1) > 0, name)
    end
    assert.matches("all_reduce", p:stage "place")
    assert.error_matches(function() p:stage "polish" end, "polish")
  end)
  it("refuses what it cannot do", function()
    assert.error_matches(function() decoder { rank = 2 } end, "no option 'rank'; did you mean 'ranks'?")
    assert.error_matches(function() decoder { ranks = 2, mesh = { dp = 3 } } end, "mesh")
    assert.error_matches(function() decoder { dtype = "f16" } end, "no element type 'f16'")
    local p = decoder { sequences = 2, tokens = 24 }
    assert.error_matches(function() p:step(text_table(0)) end, "more tokens than was planned for")
    assert.error_matches(function() p:control("lrr", 1) end, "lr")
  end)
  it("refuses tensors that were closed while bound", function()
    local p = lt.program { tokens = 2, length = 2, build = function(ctx)
      ctx:loss(op.sum(op.mul(ctx:feed("x", { dtype = "real", d1 = 3 }), ctx:param("w", { 3 }))))
    end }
    local t, x = lt.data.tensors { tokens = { { 0, 0 } } }, lt.tensor.zeros { 2, 3 }
    p:bind("x", x)
    p:step(t)
    x:close()
    assert.error_matches(function() p:step(t) end, "the tensor bound to 'x' is closed")
    p:bind("x", lt.tensor.zeros { 2, 3 })
    p:step(t)
  end)
  it("names the line of a call that is returned", function()
    local ok, e = pcall(lt.program, { tokens = 2, build = function(ctx)
      local x = ctx:param("w", { 3 })
      return op.relu(x, { slope = 1 })
    end })
    assert.is_false(ok)
    assert.matches("program_spec.lua:%d+$", e.where)
    assert.equal("relu has no attribute 'slope'", e.what)
  end)
  it("reads no memory that is not its own, whatever an index says", function()
    local p = lt.program { tokens = 3, length = 3, build = function(ctx)
      local w = ctx:param("w", { 4, 2 }, { init = "ones" })
      local y = op.gather_rows(w, ctx:feed "token")
      ctx:output("y", y)
      ctx:loss(op.sum(y))
    end }
    p:step(lt.data.tensors { tokens = { { 3, 4, 2 ^ 31 - 2 } } })
    local y = p:output("y"):table()
    assert.equal(1, y[1][1])
    for row = 2, 3 do assert.is_true(y[row][1] ~= y[row][1]) end
  end)
  it("bounds what it is asked for", function()
    assert.error_matches(function() decoder { ranks = 2 ^ 33 + 1 } end, "at most 4096 ranks")
    assert.error_matches(function() decoder { units = 2 ^ 40 } end, "units are too many")
    assert.error_matches(function() decoder { units = 1e9 } end, "longer schedule than can be held")
    lt.program({ tokens = 4, build = function() end }):close() -- nothing at all is nothing wrong
  end)
  it("can be thrown away", function()
    for _ = 1, 20 do decoder {} end
    collectgarbage()
    collectgarbage()
  end)
end)
