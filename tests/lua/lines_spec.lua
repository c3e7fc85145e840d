-- lines_spec.lua: which line of a recipe each key is on, found without running it.
local lines = require "ltrain.lines"

describe("lines", function()
  it("follows nested tables through calls", function()
    assert.same({ [""] = 2, a = 3, ["b"] = 4, ["b.c"] = 5, ["b.c.d"] = 6, ["e"] = 8, ["e.f"] = 8 }, lines.of [[
local x = { a = 1 }
return {
  a = 1,
  b = lt.nn.decoder {
    c = lt.nn.moe {
      d = 2 },
  },
  e = wrap({ f = 3 }), }]])
  end)
  it("is not misled by comments, strings and functions", function()
    local found = lines.of [==[
--[[ return { a = 1
]] local s = "return { b = 2 }" local t = [[
return { c = 3 } ]]
local function f() return { d = 4 } end
return {
  e = function() if x then return { g = 1 } end for i = 1, 2 do end end,
  h = "}", -- }
  ["i"] = ("x"):rep(3), j = { 1, { k = 2 } },
}]==]
    assert.same({ [""] = 5, e = 6, h = 7, i = 8, j = 8, ["j[1]"] = 8, ["j[2]"] = 8, ["j[2].k"] = 8 }, found)
  end)
  it("tells which arguments a value is made with", function()
    local _, arguments = lines.of [[
local a = lt.arg("x", 1)
local b = f(a,
  lt.arg "y")
local c, d = lt.arg("lost", 1), 2
local function g() local z = lt.arg("inside", 1) return { k = a } end
return { p = b * 2, q = lt.x { r = a, s = o.a, t = g(a) }, u = g(), v = lt.arg("z", 3), a = 1, c = c }]]
    assert.same({ p = { "x", "y" }, ["q.r"] = { "x" }, ["q.t"] = { "x" }, v = { "z" } }, arguments)
  end)
  it("lets the last of equal keys win", function()
    local line, arguments = lines.of("local k = lt.arg('k', 1)\nreturn {\n a = k,\n a = 2 }")
    assert.equal(4, line.a)
    assert.is_nil(arguments.a)
  end)
  it("knows nothing of a recipe that returns a name", function()
    assert.same({ [""] = 2 }, lines.of "local r = { a = 1 }\nreturn r")
  end)
  it("survives what is no Lua", function()
    for _, text in ipairs { "", "return", "return {", "return { a =", "return { [", "{ } )", "return { 'x", "--[[" } do
      assert.is_table(lines.of(text))
    end
  end)
end)
