-- set_spec.lua: --set a.b=c: what text becomes, where it is written, what is refused before the schema sees it.
require "ltrain.recipe"
local set = require "ltrain.set"

local function apply(given, ...)
  local faults = {}
  local changed, origin = set.apply(given, { ... }, faults)
  return changed, origin, faults
end

describe("--set", function()
  it("makes of a text what its key is", function()
    local r = apply({}, "train.steps=7", "data.train=2024", "model.kind=decoder", "model.tied=true", "seed=1e3",
      "dtype=f64", "checkpoint.budget=2 GiB", "train.micro_batch=auto", "optim.eps=1e-9")
    assert.same({ steps = 7, micro_batch = "auto" }, r.train)
    assert.equal("2024", r.data.train) -- a name of files, whatever it looks like
    assert.is_true(r.model.tied)
    assert.same({ 1000, "f64", "2 GiB", 1e-9 }, { r.seed, r.dtype, r.checkpoint.budget, r.optim.eps })
  end)
  it("parts a list at commas, but not a pattern of files", function()
    local r = apply({ model = { kind = "decoder" } }, "layout.order=tp,dp", "model.attention.window=16,32,false",
      "data.train=a,b.txt")
    assert.same({ "tp", "dp" }, r.layout.order)
    assert.same({ 16, 32, false }, r.model.attention.window)
    assert.equal("a,b.txt", r.data.train)
  end)
  it("takes a table as a recipe would write it", function()
    local r = apply({ model = { kind = "decoder" } }, "data.length={{0,64},{3,128}}",
      "data.train={ 'a,b.txt', \"*.jsonl\" }", "model.attention.window={ 16, false }",
      "train={ steps = 7; tokens = 1e3, }",
      'layout.place={ ["lm_head *"] = "replicated", norm = { tp = false } }', "layout.order={}")
    assert.same({ { 0, 64 }, { 3, 128 } }, r.data.length)
    assert.same({ "a,b.txt", "*.jsonl" }, r.data.train)
    assert.same({ 16, false }, r.model.attention.window)
    assert.same({ steps = 7, tokens = 1000 }, r.train)
    assert.same({ ["lm_head *"] = "replicated", norm = { tp = false } }, r.layout.place)
    assert.same({}, r.layout.order)
  end)
  it("leaves as text what only begins like one", function()
    for _, text in ipairs { "{a}.txt", "{", "{ 1 2 }", "{ 1 } 2", "{ f() }", "{ 'a }", "{ a = }",
      ("{"):rep(20) .. ("}"):rep(20) } do
      assert.equal(text, (apply({}, "data.train=" .. text)).data.train)
    end
  end)
  it("changes a copy: what keys share stays as it was", function()
    local shared = { peak = 1 }
    local given = { a = shared, b = shared }
    local r = apply(given, "a.peak=2")
    assert.same({ 2, 1, 1 }, { r.a.peak, r.b.peak, given.a.peak })
  end)
  it("remembers itself as the origin, by the path a fault would have", function()
    local _, origin = apply({}, "train.steps=3", "data.length.2.1=5")
    assert.same({ ["train.steps"] = "--set train.steps=3", ["data.length[2][1]"] = "--set data.length.2.1=5" }, origin)
  end)
  it("lets the last of several win", function()
    assert.equal(4, (apply({}, "train.steps=3", "train.steps=4")).train.steps)
  end)
  it("refuses what is no key, and what has none", function()
    for _, word in ipairs { "=3", ".a=3", "a..b=3", "a.=3", "." } do
      local r, _, faults = apply({}, word)
      assert.same({}, r)
      assert.same({ 1, "--set takes KEY=VALUE", 2 }, { #faults, faults[1].what, faults[1].code })
    end
    local r, _, faults = apply({ seed = 3 }, "seed.x=4")
    assert.equal(3, r.seed)
    assert.same({ "seed", "has no keys of its own", "3" }, { faults[1].key, faults[1].what, faults[1].got })
  end)
end)
