-- console.lua: the prompt's half in Lua: pieces of code from lines, locals that live on, results as text, completion.
-- A top-level `local` of one piece is an upvalue of the pieces after it: its declaration becomes an assignment to a
-- fresh upvalue, later pieces are joined to it (lua_upvaluejoin). So closures share it, and it runs as fast as a local.
local console = {}
local concat, floor = table.concat, math.floor
local format, find, sub, byte, rep = string.format, string.find, string.sub, string.byte, string.rep
local type, tostring, pairs, ipairs, rawget, next, pcall = type, tostring, pairs, ipairs, rawget, next, pcall
local error, unpack, sort, max = error, unpack, table.sort, math.max
local load, getmetatable, select = loadstring, getmetatable, select
local getupvalue, setupvalue, upvaluejoin = debug.getupvalue, debug.setupvalue, debug.upvaluejoin
local getmeta, write = debug.getmetatable, io.write

local NAME = "=prompt"
local cells = {}   -- name → a function whose first upvalue is the local of that name
local pending = nil -- lines of an incomplete piece

-- ---- Tokens ----

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true "
  .. "until while"):gmatch "%a+" do keywords[word] = true end

-- Where the token at `at` ends, and its kind.
local function token_end(text, at)
  local _, last = find(text, "^[%a_\128-\255][%w_\128-\255]*", at)
  if last then return last, "name" end
  local level
  _, last, level = find(text, "^%-%-%[(=*)%[", at)
  if last then return select(2, find(text, "]" .. level .. "]", last, true)) or #text, "space" end
  _, last = find(text, "^%-%-[^\n]*", at)
  if last then return last, "space" end
  _, last, level = find(text, "^%[(=*)%[", at)
  if last then return select(2, find(text, "]" .. level .. "]", last, true)) or #text, "text" end
  _, last = find(text, "^%.?%d[%w_%.]*", at)
  if last then return last, "number" end
  local quote = find(text, "^[\"']", at) and sub(text, at, at)
  if not quote then return at, "sign" end
  local to = at + 1
  while to <= #text and sub(text, to, to) ~= quote do to = to + (byte(text, to) == 92 and 2 or 1) end
  return to, "text"
end

-- { kind, text, first, last } of all but space.
local function tokens_of(text)
  local out, at = {}, 1
  while true do
    at = find(text, "%S", at)
    if not at then return out end
    local last, kind = token_end(text, at)
    if kind ~= "space" then out[#out + 1] = { kind = kind, text = sub(text, at, last), first = at, last = last } end
    at = last + 1
  end
end

-- ---- Locals that live on ----

local opens = { ["function"] = 1, ["if"] = 1, ["do"] = 1, ["repeat"] = 1, ["end"] = -1, ["until"] = -1 }

-- The names of `local a, b` whose first is tokens[i], and the index of the last.
local function names_at(tokens, i)
  local names = {}
  while tokens[i] and tokens[i].kind == "name" and not keywords[tokens[i].text] do
    names[#names + 1] = tokens[i].text
    if not (tokens[i + 1] and tokens[i + 1].text == ",") then return names, i end
    i = i + 2
  end
  return names, i
end

-- The text with its top-level declarations as assignments of the same length or longer, on the same lines; the names
-- they declare; all names in it.
local function hoist(text)
  local tokens, depth, declared, mentioned = tokens_of(text), 0, {}, {}
  local out, done = {}, 0
  for i, token in ipairs(tokens) do
    if token.kind == "name" then
      mentioned[token.text] = true
      depth = depth + (opens[token.text] or 0)
    end
    if token.text == "local" and depth == 0 and tokens[i + 1] then
      out[#out + 1] = sub(text, done + 1, token.first - 1) .. "     "
      done = token.last
      if tokens[i + 1].text == "function" then
        if tokens[i + 2] then declared[tokens[i + 2].text] = true end
      else
        local names, last = names_at(tokens, i + 1)
        for _, name in ipairs(names) do declared[name] = true end
        if tokens[last] and not (tokens[last + 1] and tokens[last + 1].text == "=") then
          out[#out + 1] = sub(text, done + 1, tokens[last].last) .. " = nil"
          done = tokens[last].last
        end
      end
    end
  end
  return concat(out) .. sub(text, done + 1), declared, mentioned
end

local function cell(value) return function() return value end end

local function value_of(name)
  if cells[name] then return (cells[name]()) end
  return rawget(_G, name)
end

-- The piece as a function in which all locals of the prompt are visible.
local function with_locals(text)
  local body, declared, mentioned = hoist(text)
  local names, fresh = {}, {}
  for name in pairs(declared) do fresh[name] = cell(value_of(name)) end -- `local x = x` reads the older one
  for name in pairs(mentioned) do
    if fresh[name] or cells[name] then names[#names + 1] = name end
  end
  if #names == 0 then return load(text, NAME) end
  local outer, problem = load("local " .. concat(names, ",") .. ";return function() " .. body .. "\nend", NAME)
  if not outer then return nil, problem end
  local piece = outer()
  for name, f in pairs(fresh) do cells[name] = f end
  for i = 1, 255 do
    local name = getupvalue(piece, i)
    if not name then break end
    upvaluejoin(piece, i, cells[name], 1)
  end
  return piece
end

-- ---- Pieces ----

local function is_incomplete(problem) return sub(problem, -7) == "'<eof>'" end

-- A function; or nil, whether more lines could mend it, and what is wrong.
-- Of an expression: and true, and a nil before its values: were it returned alone, a call would be a tail call and lose
-- its line.
local function compile(text)
  local expression = text:gsub("^%s*=", ""):gsub("^%s*return%f[^%w_]", "")
  local ok, unfinished = load("return nil, " .. expression, NAME)
  if ok then return with_locals("return nil, " .. expression), true end
  local problem
  ok, problem = load(text, NAME)
  if ok then return with_locals(text), false end
  if is_incomplete(unfinished) then return nil, true, unfinished end
  return nil, is_incomplete(problem), problem
end

local show

local function keep(quiet, n, ...)
  if n == 0 then return end
  cells._ = cells._ or cell()
  setupvalue(cells._, 1, (...))
  if not quiet then write(show(n, ...), "\n") end
end

local function run(piece, is_expression, quiet)
  local function results(...) keep(quiet, select("#", ...), ...) end
  if not is_expression then return results(piece()) end
  local function values(_, ...) results(...) end
  values(piece())
end

-- One line more. True: the piece goes on in the next line. `last`: there is none. `quiet`: its results are not shown.
-- Raises what is wrong with the piece.
function console.feed(line, last, quiet)
  pending = pending and pending .. "\n" .. line or line
  local piece, more, problem = compile(pending)
  if not piece and more and not last then return true end
  pending = nil
  if not piece then error(problem, 0) end
  run(piece, more, quiet)
  return false
end

function console.drop() pending = nil end

-- ---- Results as text ----

local MOST_ENTRIES, MOST_DEPTH, MOST_TEXT, WIDTH = 40, 4, 200, 100
local EDGE, MOST_WHOLE = 3, 7 -- of a tensor's dimension: shown at either end, or whole

local function quote(s)
  if #s > MOST_TEXT then s = sub(s, 1, MOST_TEXT) .. "…" end
  return (format("%q", s):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("[%z\1-\31\127]", function(c)
    return format("\\%d", byte(c))
  end))
end

local function number(x)
  if x == floor(x) and x > -1e15 and x < 1e15 then return format("%.0f", x) end
  return (format("%.5g", x))
end

-- The indices of a dimension that are shown; 0 stands for those left out.
local function shown(n)
  local out = {}
  if n <= MOST_WHOLE then
    for i = 1, n do out[i] = i end
  else
    for i = 1, EDGE do out[i] = i end
    out[EDGE + 1] = 0
    for i = n - EDGE + 1, n do out[#out + 1] = i end
  end
  return out
end

local function tensor_values(t, shape, index, level, indent, width)
  if level > #shape then
    local text = number(t:get(unpack(index)))
    return rep(" ", width - #text) .. text
  end
  local parts, inner = {}, level < #shape
  for k, i in ipairs(shown(shape[level])) do
    index[level] = i
    parts[k] = i == 0 and "…" or tensor_values(t, shape, index, level + 1, indent .. " ", width)
  end
  index[level] = nil
  return "[" .. concat(parts, inner and ",\n" .. indent .. " " or ", ") .. "]"
end

-- The longest number that is shown: columns stand under each other.
local function tensor_width(t, shape, index, level)
  if level > #shape then return #number(t:get(unpack(index))) end
  local widest = 0
  for _, i in ipairs(shown(shape[level])) do
    index[level] = i
    if i ~= 0 then widest = max(widest, tensor_width(t, shape, index, level + 1)) end
  end
  index[level] = nil
  return widest
end

local function show_tensor(t, indent)
  local ok, shape = pcall(function() return t.shape end)
  if not ok then return tostring(t) end -- closed
  local head = format("%s[%s]", t.dtype, concat(shape, ", "))
  if t.count == 0 then return head end
  local width = #shape > 0 and tensor_width(t, shape, {}, 1) or 0
  local values = tensor_values(t, shape, {}, 1, indent, width)
  return head .. (#shape > 1 and "\n" .. indent or " ") .. values
end

local order = { number = 1, string = 2, boolean = 3 }
local function before(a, b)
  local x, y = order[type(a)] or 4, order[type(b)] or 4
  if x ~= y then return x < y end
  if x <= 2 then return a < b end
  return tostring(a) < tostring(b)
end

local function show_key(key)
  if type(key) == "string" and find(key, "^[%a_][%w_]*$") and not keywords[key] then return key end
  return "[" .. (type(key) == "string" and quote(key) or tostring(key)) .. "]"
end

local show_value

local function show_table(t, indent, above)
  local meta = getmeta(t)
  if type(meta) == "table" and rawget(meta, "__tostring") then return tostring(t) end
  if next(t) == nil then return "{}" end
  if above[t] then return "{ … the table above … }" end
  if #indent >= 2 * MOST_DEPTH then return "{ … }" end
  above[t] = true
  local keys, parts, n, long = {}, {}, #t, false
  for key in pairs(t) do keys[#keys + 1] = key end
  sort(keys, before)
  for i, key in ipairs(keys) do
    if i > MOST_ENTRIES then
      parts[i] = format("… %d more", #keys - MOST_ENTRIES)
      break
    end
    local value = show_value(rawget(t, key), indent .. "  ", above)
    parts[i] = (type(key) == "number" and key >= 1 and key <= n and floor(key) == key) and value
      or show_key(key) .. " = " .. value
    long = long or find(parts[i], "\n", 1, true) ~= nil
  end
  above[t] = nil
  local line = "{ " .. concat(parts, ", ") .. " }"
  if not long and #line + #indent <= WIDTH then return line end
  return "{\n" .. indent .. "  " .. concat(parts, ",\n" .. indent .. "  ") .. "\n" .. indent .. "}"
end

function show_value(x, indent, above)
  local kind = type(x)
  if kind == "string" then return quote(x) end
  if kind == "table" then return show_table(x, indent, above) end
  if kind == "userdata" and getmetatable(x) == "lt.tensor" then return show_tensor(x, indent) end
  return tostring(x)
end

-- Values as people read them: text on its own as it is, several values in one line if they fit.
function show(n, ...)
  local parts, long = {}, false
  for i = 1, n do
    local x = select(i, ...)
    parts[i] = type(x) == "string" and n == 1 and x or show_value(x, "", {})
    long = long or find(parts[i], "\n", 1, true) ~= nil
  end
  return concat(parts, long and "\n" or "  ")
end
console.show = show

-- ---- Completion ----

-- Nothing is called: a field behind a function of __index is not looked for, but for the methods it keeps.
local function field(object, key)
  local ok, value = pcall(rawget, object, key)
  if ok and value ~= nil then return value end
  local meta = getmeta(object)
  local index = type(meta) == "table" and rawget(meta, "__index")
  if type(index) == "function" then index = select(2, getupvalue(index, 1)) end
  return type(index) == "table" and rawget(index, key) or nil
end

local function add_keys(t, start, out)
  if type(t) ~= "table" then return end
  for key in next, t do
    if type(key) == "string" and sub(key, 1, #start) == start and find(key, "^[%a_][%w_]*$") then out[key] = true end
  end
end

local function add_fields(object, start, out)
  add_keys(object, start, out)
  local meta = getmeta(object)
  local index = type(meta) == "table" and rawget(meta, "__index")
  if type(index) == "function" then index = select(2, getupvalue(index, 1)) end
  add_keys(index, start, out)
end

-- How the name that ends the text could go on: the letters of it that are there, and the names, sorted.
function console.complete(text)
  local path, start = text:match "([%a_][%w_%.:]*[%.:])([%w_]*)$"
  local out, list = {}, {}
  if path then
    local object, first = nil, true
    for name in path:gmatch "([%w_]+)[%.:]" do
      if first then object = value_of(name) else object = field(object, name) end
      first = false
      if object == nil then return start, list end
    end
    add_fields(object, start, out)
  else
    start = text:match "[%a_][%w_]*$" or ""
    if start == "" or text:match "%d[%w_]*$" == start then return start, list end
    add_keys(_G, start, out)
    add_keys(cells, start, out)
    add_keys(keywords, start, out)
  end
  for name in pairs(out) do list[#list + 1] = name end
  sort(list)
  return start, list
end

-- ---- What is different at a prompt ----

-- A compiled loop hears nobody: the compiler stays off as a whole, or Ctrl-C would be a promise with exceptions. And a
-- handler of xpcall would run under the hook that raised, where no hook looks: of an interruption none is told.
function console.prepare(is_stopped)
  local on, protect = jit.on, xpcall
  rawset(jit, "on", function(f, ...)
    if f == nil then
      error("the prompt runs code interpreted, so that Ctrl-C stops every loop; --script FILE compiles", 2)
    end
    return on(f, ...)
  end)
  rawset(_G, "xpcall", function(f, handler, ...)
    return protect(f, function(e)
      if is_stopped() then return e end
      return handler(e)
    end, ...)
  end)
end

return console
