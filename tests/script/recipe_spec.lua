-- recipe_spec.lua: recipes from file to settings and graphs: arguments, --set, faults found while it runs and builds.
-- What the schema refuses, with its exact words: tests/recipes/faulty.
local path = "recipe_spec_recipe.lua" -- in the folder of the tests

local good = [[
local k = lt.arg("width", 32, "of the stream")
return {
  data = {
    train = "*.txt",
    length = 64,
  },
  model = lt.nn.decoder {
    vocab = 256, width = k,
    layers = 2, heads = 4,
    ffn = lt.nn.swiglu { hidden = 48 },
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-3, warmup = 10 } },
  train = { tokens = 256, steps = 100 },
}
]]

local function open(text, args, sets)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
  return lt.recipe(path, args or {}, sets or {})
end

local function refuse(text, args, sets)
  local ok, e = pcall(open, text, args, sets)
  assert(not ok, "the recipe was accepted")
  return e
end

-- `good` with one piece of text replaced.
local function changed(from, to)
  local at, stop = good:find(from, 1, true)
  assert(at, "the good recipe has no " .. from)
  return good:sub(1, at - 1) .. to .. good:sub(stop + 1)
end

local function setting(r, key)
  for name, value in r:settings():gmatch "([^\n]-) = ([^\n]*)" do if name == key then return value end end
end

describe("a recipe", function()
  teardown(function() os.remove(path) end)

  it("is complete once it is read", function()
    local r = open(good)
    assert.equal("32", setting(r, "model.width"))
    assert.equal("8", setting(r, "model.head_dim"))
    assert.equal("4", setting(r, "model.kv_heads"))
    assert.equal("10000", setting(r, "model.attention.rope.base"))
    assert.equal("0.95", setting(r, "optim.beta2"))
    assert.equal('"auto"', setting(r, "train.micro_batch"))
    assert.equal("{ { 0, 64 } }", setting(r, "data.length"))
  end)
  it("takes arguments, converted to what their default is", function()
    assert.equal("64", setting(open(good, { "width=64" }), "model.width"))
    local e = refuse(good, { "width=wide" })
    assert.equal(2, e.code)
    assert.same({ "argument width=wide", "a number, as 32 is", "wide" }, { e.where, e.expected, e.got })
  end)
  it("refuses arguments it does not declare, and lists those it does", function()
    local e = refuse(good, { "widht=64" })
    assert.equal(2, e.code)
    assert.same({ "argument widht=64", "the recipe has no such argument" }, { e.where, e.what })
    assert.equal("one of width", e.expected)
    assert.equal("did you mean width?", e.hint)
  end)
  it("is changed by --set after it has run, before it is checked", function()
    local r = open(good, {}, { "model.width=64", "train.micro_batch=3", "dtype=f64", "model.attention.window=16" })
    assert.equal("64", setting(r, "model.width"))
    assert.equal("16", setting(r, "model.head_dim"))
    assert.equal("3", setting(r, "train.micro_batch"))
    assert.equal('"f64"', setting(r, "dtype"))
    assert.equal("16", setting(r, "model.attention.window"))
    local e = refuse(good, {}, { "model.layers=many" })
    assert.same({ "--set model.layers=many", "model.layers", '"many"' }, { e.where, e.key, e.got })
  end)
  it("refuses a --set that names no key", function()
    for _, set in ipairs { "=3", ".train=3", "train..steps=3", "train.=3" } do
      local e = refuse(good, {}, { set })
      assert.same({ 2, "--set takes KEY=VALUE", "--set " .. set }, { e.code, e.what, e.where })
    end
    local e = refuse(changed("  model =", "  seed = 5,\n  model ="), {}, { "seed.x=3" })
    assert.same({ "--set seed.x=3", "seed", "has no keys of its own" }, { e.where, e.key, e.what })
  end)
  it("may recompute layers where it has a budget", function()
    local function mode(text) return setting(open(changed("  model =", "  checkpoint = " .. text .. ",\n  model =")),
      "checkpoint.mode") end
    assert.equal('"none"', setting(open(good), "checkpoint.mode"))
    assert.equal('"auto"', mode "{ budget = '1 GiB' }")
    assert.equal('"layers"', mode "{ layers = 1 }")
    assert.equal('"none"', mode "{ budget = '1 GiB', mode = 'none' }")
    assert.equal('"layers"', mode "'layers'")
  end)
  it("says how fast it learns", function()
    local r = open(good)
    assert.near(1e-4, r:lr(0), 1e-12)
    assert.near(1e-3, r:lr(9), 1e-12)
    assert.near(1e-4, r:lr(100), 1e-12)
    r = open(changed("lt.lr.cosine { peak = 1e-3, warmup = 10 }", "function(step) return step / 4 end"))
    assert.equal(0.75, r:lr(3))
    r = open(changed("lt.lr.cosine { peak = 1e-3, warmup = 10 }", "function(step) return 'fast' end"))
    assert.error_matches(function() r:lr(0) end, "the learning rate of step 0 is no rate")
  end)
  it("builds a graph whose nodes know their scope and line", function()
    local text = open(good):graph()
    assert.matches("forward layer 1/attention\n", text)
    assert.matches("model%.layers%.1%.mlp%.down_proj%.weight", text)
    assert.matches("recipe_spec_recipe%.lua:7\n", text) -- the line of lt.nn.decoder
    assert.matches("update optimizer\n", text)
    assert.not_matches("adamw", open(good):graph(false))
  end)
  it("may write its own feed-forward layer, whose lines the graph knows", function()
    local own = changed("ffn = lt.nn.swiglu { hidden = 48 }",
      "ffn = function(x, ctx)\n local h = ctx:linear('up', x, 40)\n" ..
      " return ctx:linear('down', lt.op.tanh(h), x.width)\n end")
    local text = open(own):graph()
    assert.matches("model%.layers%.0%.mlp%.up%.weight\" f32%[40, 32%]", text)
    assert.matches("tanh%(%%%d+%)  %-%- recipe_spec_recipe%.lua:12\n", text)
  end)
  it("may be a function that returns its loss", function()
    local text = open([[return { data = { train = "x" }, optim = lt.optim.adamw { lr = 0.1 }, model = function(ctx)
      local w = ctx:param("w", { 4 }, { init = "ones" })
      return lt.op.sum(lt.op.square(w), { dim = -1 })
    end }]]):graph()
    assert.matches('parameter "w" f32%[4%]', text)
  end)
end)

describe("a fault of a recipe", function()
  teardown(function() os.remove(path) end)
  it("is told where a table was made, when it is not written out in place", function()
    local e = refuse("local m = lt.nn.decoder {\n  widht = 3 }\n" .. [[
return { data = { train = "x" }, model = m, optim = lt.optim.adamw { lr = 1 } }]])
    assert.equal("model.widht", e.key)
    assert.equal(path .. ":3", e.where) -- the nearest ancestor that is written
  end)
  it("may be a mistake in its Lua", function()
    local e = refuse("return {\n  model = = 3 }")
    assert.same({ 3, path .. ":2" }, { e.code, e.where })
    e = refuse("local x\n\nlocal y = x.z\nreturn {}")
    assert.same({ 3, path .. ":3" }, { e.code, e.where })
    assert.matches("attempt to index local 'x'", e.what)
  end)
  it("may be found while building: the operation, the line, the scope", function()
    local r = open(changed("ffn = lt.nn.swiglu { hidden = 48 }",
      "ffn = function(x, ctx)\n return lt.op.matmul(x,\n ctx:param('w', { 3, 5 })) + 0\n end"))
    local ok, e = pcall(r.graph, r)
    assert.is_false(ok)
    assert.same({ 3, "layer 0/feed-forward" }, { e.code, e.key })
    assert.matches(path .. ":1[12]", e.where)
  end)
  describe("in a layer of one's own, returned as it is called,", function()
    local mistakes = { -- body, what, got: all in line 12, the second of the body
      { "lt.op.matmul(x, ctx:param('w', { 3, 5 }))",
        "matmul: dimension 1 of input 1 and dimension 0 of input 2 differ", "f32[tokens, 32] and f32[3, 5]" },
      { "lt.op.relu(x, { slope = 1 })", "relu has no attribute 'slope'", "" },
      { "lt.op.softcap(x, { cup = 1 })", "softcap has no attribute 'cup'; did you mean 'cap'?", "" },
      { "lt.op.relu(3)", "relu: input 1 must be a value, not number", "" },
      { "lt.op.relu()", "relu takes another number of inputs", "0" },
      { "ctx:linear('w', x, 31)", "ffn must return the shape it was given", "f32[tokens, 31]" },
      { "lt.op.cast(x, { dtype = 'f64' })", "ffn must return the shape it was given", "f64[tokens, 32]" },
      { "lt.op.sum(x)", "ffn must return the shape it was given", "f32[]" },
      { "ctx.linear('w', x, 32)", "ctx:linear is called with a colon", "ctx.linear(…)" },
      { "ctx:linear(x, 'w', 32)", "ctx:linear takes a name first", "lt.value" },
      { "ctx:linear('w', 32)", "ctx:linear takes a value after its name", "number" },
      { "ctx:linear('w', x, 32, { baias = true })", "ctx:linear has no option 'baias'", "" },
      { "ctx:norm('w', x, { kind = 'layernrom' })", "there is no norm of this kind", "layernrom" },
      { "x * ctx:param('w', { 32 }, { inti = 'ones' })", "ctx:param has no option 'inti'", "" },
      { "x * ctx:feed 'wieght'", "the step table has no column 'wieght'", "" },
      { "x * ctx:feed('mine', { d1 = 32 })", "the step table has no column 'mine'", "" },
      { "x * ctx:param('w', { 1e9, 1e9 })",
        '"model.layers.0.mlp.w" has more elements than can be addressed', "" },
      { "ctx:scope('inner', x)", "ctx:scope takes a name and a function", "lt.value" },
      { "error {}", "an error value of type table", "" },
    }
    for _, m in ipairs(mistakes) do
      it("says " .. m[2], function()
        local r = open(changed("ffn = lt.nn.swiglu { hidden = 48 }",
          "ffn = function(x, ctx)\n local _ = ctx:linear('before', x, 4)\n return " .. m[1] .. "\n end"))
        local ok, e = pcall(r.graph, r)
        assert.is_false(ok)
        assert.same({ path .. ":12", m[2], m[3] }, { e.where, e.what, e.got })
      end)
    end
    it("and not where the decoder goes on", function()
      local r = open(changed("ffn = lt.nn.swiglu { hidden = 48 }",
        "ffn = function(x, ctx)\n local y = ctx:linear('w', x, 32)\n return lt.op.tanh(y)\n end"))
      assert.matches("tanh%(%%%d+%)  %-%- recipe_spec_recipe%.lua:12\n", r:graph())
      assert.matches("label_loss%(.-%)  %-%- recipe_spec_recipe%.lua:7\n", r:graph())
      assert.matches("adamw%(.-%)  %-%- recipe_spec_recipe%.lua:15\n", r:graph())
    end)
  end)
  it("may be a function that returns no value", function()
    local r = open(changed("lt.nn.swiglu { hidden = 48 }", "function() end"))
    assert.error_matches(function() r:graph() end, "ffn must return a value")
  end)
  it("may be an error that cannot be told", function()
    local e = refuse("error(setmetatable({}, { __tostring = function() error 'inner' end }))")
    assert.same({ 3, path .. ":1" }, { e.code, e.where })
    e = refuse("error(setmetatable({}, { __tostring = function() return 'mine' end }))")
    assert.equal("mine", e.what)
  end)
  it("may be that there is no recipe", function()
    local ok, e = pcall(lt.recipe, "no_such_recipe.lua")
    assert.is_false(ok)
    assert.same({ 2, "no_such_recipe.lua" }, { e.code, e.where })
  end)
end)
