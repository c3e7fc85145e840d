-- pattern_spec.lua: the pattern functions of recipes: what LuaJIT's own return, on every syntax and on generated
-- patterns; and an end, with an error, where those would go on for years.
local ours = lt.pattern

-- A deterministic stream of integers in [1, n]: Lehmer's.
local function stream(seed)
  local x = seed
  return function(n)
    x = x * 48271 % 2147483647
    return x % n + 1
  end
end

local items = { "a", "b", "c", ".", "%a", "%d", "%s", "%w", "%W", "%p", "%l", "%u", "%x", "%c", "%z", "%g", "%%", "%.",
  "[ab]", "[^ab]", "[a-c]", "[^%d]", "[]]", "[^]]", "[%]]", "[a-]", "[-a]", "[%w_]", "[%a-z]", " ", "\n", "-", "]",
  "%S", "%D", "1", "A", "\200", "[\128-\255]" }
local broken = { "[", "[a", "[^", "%", "(", ")", "%b", "%bx", "%f", "%fa", "%1", "%0", "%9", "[%", "[a-", "*", "+",
  "?", "^", "$", "\0", "[\0]" }
local letters = { "a", "b", "c", "A", "1", " ", "\n", "(", ")", "-", "]", ".", "%", "\0", "\200", "_", "x" }

local function make_pattern(pick)
  local out, open, n = {}, 0, pick(7)
  if pick(6) == 1 then out[1] = "^" end
  for _ = 1, n do
    local r = pick(24)
    if r == 1 then
      out[#out + 1] = "("
      open = open + 1
    elseif r == 2 and open > 0 then
      out[#out + 1] = ")"
      open = open - 1
    elseif r == 3 then
      out[#out + 1] = "()"
    elseif r == 4 then
      out[#out + 1] = "%b" .. (pick(2) == 1 and "()" or "ab")
    elseif r == 5 then
      out[#out + 1] = "%f" .. ({ "[%a]", "[^%a]", "[\1-\255]", "[%z]" })[pick(4)]
    elseif r == 6 then
      out[#out + 1] = "%" .. pick(3)
    elseif r == 7 then
      out[#out + 1] = broken[pick(#broken)]
    else
      out[#out + 1] = items[pick(#items)]
      if pick(3) == 1 then out[#out + 1] = ({ "*", "+", "-", "?" })[pick(4)] end
    end
  end
  for _ = 1, open do if pick(8) > 1 then out[#out + 1] = ")" end end
  if pick(6) == 1 then out[#out + 1] = "$" end
  return table.concat(out)
end

local function make_text(pick)
  local out = {}
  for i = 1, pick(17) - 1 do out[i] = letters[pick(pick(2) == 1 and 3 or #letters)] end
  return table.concat(out)
end

local function show(t)
  local out = {}
  for i = 1, t.n do out[i] = type(t[i]) == "string" and ("%q"):format(t[i]) or tostring(t[i]) end
  return table.concat(out, ", ")
end

-- All results, or "error".
local function call(f, ...)
  local function pack(ok, ...)
    if not ok then return "error" end
    return show { n = select("#", ...), ... }
  end
  return pack(pcall(f, ...))
end

local function collect(gmatch)
  return function(s, p)
    local out = {}
    for a, b, c in gmatch(s, p) do out[#out + 1] = show { n = 3, a, b, c } end
    return table.concat(out, " | ")
  end
end

local function same(name, f, g, ...)
  local expected, got = call(f, ...), call(g, ...)
  if expected ~= got then
    error(("%s(%s)\n  expected %s\n  got      %s"):format(name, show { n = select("#", ...), ... }, expected, got), 0)
  end
  return expected ~= "error" and expected ~= "nil"
end

local replacements = { "x", "%0%0", "%1", "<%1%2>", "%%", "%a", "", { a = "A", b = false, ["1"] = 7 },
  function(a, b) return b or a end, function() end, function(a) return type(a) == "number" and 1 or nil end }

describe("the patterns of recipes", function()
  it("match as LuaJIT's do, on 20 000 generated ones", function()
    local pick, found, failed = stream(4711), 0, 0
    for _ = 1, 20000 do
      local s, p = make_text(pick), make_pattern(pick)
      local init = pick(4) == 1 and pick(24) - 8 or nil
      if same("find", string.find, ours.find, s, p, init) then found = found + 1 end
      if call(ours.find, s, p) == "error" then failed = failed + 1 end
      same("match", string.match, ours.match, s, p, init)
      same("plain find", string.find, ours.find, s, p, init, true)
      same("gmatch", collect(string.gmatch), collect(ours.gmatch), s, p)
      local most = pick(5) == 1 and pick(4) - 1 or nil
      same("gsub", string.gsub, ours.gsub, s, p, replacements[pick(#replacements)], most)
    end
    assert.is_true(found > 3000 and failed > 1000, found .. " found, " .. failed .. " refused")
  end)
  it("know every class, byte for byte", function()
    for c = 0, 255 do
      for _, class in ipairs { "a", "c", "d", "g", "l", "p", "s", "u", "w", "x", "z" } do
        for _, p in ipairs { "%" .. class, "%" .. class:upper(), "[%" .. class .. "]", "[^%" .. class .. "]" } do
          same("find", string.find, ours.find, string.char(c), p)
        end
      end
      same("find", string.find, ours.find, "x" .. string.char(c), "%" .. string.char(c))
    end
  end)
  it("take numbers for strings, and refuse the rest", function()
    assert.equal("1", ours.match(123, "%d"))
    assert.same({ "1x3", 1 }, { ours.gsub(123, 2, "x") })
    assert.is_false(pcall(ours.find, {}, "a"))
    assert.is_false(pcall(ours.find, "a"))
    assert.is_false(pcall(ours.gsub, "a", "a", true))
    assert.is_false(pcall(ours.gsub, "a", "a", function() return {} end))
  end)
end)

describe("a pattern without end", function()
  local a, few = ("a"):rep(1000), ("a"):rep(40)
  local hostile = { -- 10^7 to 10^8 steps each: a library without the limit is slow, and fails, but ends
    { "find", few, ("a*"):rep(6) .. "b" },
    { "match", few, ("a-"):rep(6) .. "b" },
    { "gmatch", few, ("a?a-"):rep(4) .. "b" },
    { "gsub", few, ("[%w]*"):rep(6) .. "b", "" },
    { "find", few, ("(a*)"):rep(6) .. "%1b" },
    { "find", ("("):rep(10000), ("%b()"):rep(2) },
    { "find", ("("):rep(600), ".-%b()" },
    { "find", ("a"):rep(2 ^ 14), ("a"):rep(2 ^ 13) .. "b" },
    { "find", a, "[" .. ("b"):rep(100000) .. "]" },
    { "gsub", ("a"):rep(2 ^ 20), "a", "b" },
  }
  for i, case in ipairs(hostile) do
    it("ends after a million steps: " .. i .. ", " .. case[1], function()
      local start = os.clock()
      local ok, e = pcall(function()
        local r = ours[case[1]](case[2], case[3], case[4])
        return case[1] == "gmatch" and r() or r
      end)
      assert.is_false(ok)
      assert.matches("more than 1000000 steps", tostring(e))
      assert.is_true(os.clock() - start < 1)
    end)
  end
  it("is refused when too much of it waits", function()
    local ok, e = pcall(ours.find, a, ("a?"):rep(300) .. "b")
    assert.is_false(ok)
    assert.matches("more than 200 items wait", tostring(e))
  end)
  it("leaves the next call all its steps", function()
    for _ = 1, 50 do assert.is_truthy(ours.find(("a"):rep(200000) .. "b", "a*b")) end
  end)
end)
