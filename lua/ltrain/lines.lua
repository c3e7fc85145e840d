-- lines.lua: which line of a recipe each key is written on: { ["model.width"] = 12, … }, by a small lexer.
-- It follows the table literally nested under the last `return` at the top, also through `name {` and `name(…)`; what
-- is computed elsewhere has no line of its own. The last of two equal keys wins, as in Lua. It also tells which keys
-- are written with which arguments: with lt.arg itself, or with a local made with it.
local lines = {}

-- ---- Tokens: { kind = "name" | "string" | "number" | the sign itself, text, line } ----

local function long_bracket(s, at) -- [==[ … ]==] from `at`: the position behind it
  local level = s:match("^%[(=*)%[", at)
  if not level then return nil end
  local _, close = s:find("]" .. level .. "]", at, true)
  return (close or #s) + 1
end

local function quoted_end(s, at)
  local quote, i = s:sub(at, at), at + 1
  while i <= #s do
    local c = s:sub(i, i)
    if c == quote then return i + 1 end
    i = i + (c == "\\" and 2 or 1)
  end
  return #s + 1
end

local function next_token(s, at, line)
  while true do -- white space and comments
    local _, blank = s:find("^%s+", at)
    if blank then
      local _, n = s:sub(at, blank):gsub("\n", "")
      at, line = blank + 1, line + n
    elseif s:find("^%-%-", at) then
      local stop = long_bracket(s, at + 2) or s:find("\n", at, true) or #s + 1
      local _, n = s:sub(at, stop - 1):gsub("\n", "")
      at, line = stop, line + n
    else
      break
    end
  end
  if at > #s then return nil end
  local name = s:match("^[%a_][%w_]*", at)
  if name then return { kind = "name", text = name, line = line }, at + #name, line end
  local number = s:match("^%.?%d[%w%.]*", at)
  if number then return { kind = "number", text = number, line = line }, at + #number, line end
  local c = s:sub(at, at)
  local stop = (c == '"' or c == "'") and quoted_end(s, at) or long_bracket(s, at)
  if stop then
    local text = s:sub(at, stop - 1)
    local _, n = text:gsub("\n", "")
    return { kind = "string", text = text:match "^[\"'](.*)[\"']$" or text, line = line }, stop, line + n
  end
  local sign = s:match("^[=~<>]=", at) or c
  return { kind = sign, text = sign, line = line }, at + #sign, line
end

local function tokens_of(s)
  local list, at, line = {}, s:sub(1, 1) == "#" and (s:find("\n", 1, true) or #s + 1) or 1, 1
  local token
  repeat
    token, at, line = next_token(s, at, line)
    list[#list + 1] = token
  until not token
  return list
end

-- ---- Skipping what is not a table written out ----

local opens = { ["("] = true, ["["] = true, ["{"] = true, ["function"] = true, ["if"] = true, ["do"] = true,
  ["repeat"] = true }
local closes = { [")"] = true, ["]"] = true, ["}"] = true, ["end"] = true, ["until"] = true }

-- The index behind the group that opens at i.
local function behind_group(list, i)
  local depth = 0
  repeat
    local t = list[i]
    if not t then return #list + 1 end
    local word = (t.kind == "name" or t.kind == t.text) and t.text
    if opens[word] then depth = depth + 1 elseif closes[word] then depth = depth - 1 end
    i = i + 1
  until depth <= 0
  return i
end

-- ---- Tables ----

local read_table

-- The name X of `lt.arg("X"` or `lt.arg "X"` from token i on, nil.
local function argument_at(list, i)
  if not list[i + 3] or list[i].text ~= "lt" or list[i + 1].text ~= "." or list[i + 2].text ~= "arg" then return nil end
  local word = list[i + 3].kind == "(" and list[i + 4] or list[i + 3]
  return word and word.kind == "string" and word.text or nil
end

local function add_name(names, name)
  for _, known in ipairs(names) do if known == name then return end end
  names[#names + 1] = name
end

-- Note the arguments the token at i brings into what is called `key` of `into`: one itself, or those of a local.
local function note_argument(list, i, into, key, locals)
  local t, before = list[i], list[i - 1]
  if t.kind ~= "name" or before and (before.kind == "." or before.kind == ":") then return end
  local names = locals[t.text] or { argument_at(list, i) }
  if #names == 0 then return end
  into[key] = into[key] or {}
  for _, name in ipairs(names) do add_name(into[key], name) end
end

-- The value of a local, from token i on: the rest of the line and what is open at its end. Returns where it ends.
local function read_local(list, i, name, found)
  local line, own = list[i] and list[i].line, {}
  while list[i] and list[i].line == line do
    local stop = list[i].kind ~= "string" and opens[list[i].text] and behind_group(list, i) or i + 1
    for k = i, stop - 1 do note_argument(list, k, own, 1, found.locals) end
    i, line = stop, list[stop - 1].line
  end
  found.locals[name] = own[1]
  return i
end

-- The value of a key from i on, up to `,` `;` or the closing brace; tables in it belong to `path`.
local function read_value(list, i, path, found)
  while list[i] do
    local t = list[i]
    if t.kind == "," or t.kind == ";" or t.kind == "}" then return i end
    note_argument(list, i, found.arguments, path, found.locals)
    if t.kind == "{" then
      i = read_table(list, i, path, found)
    elseif t.kind == "(" and list[i + 1] and list[i + 1].kind == "{" then
      i = read_table(list, i + 1, path, found)
      while list[i] and list[i].kind ~= ")" do i = opens[list[i].text] and behind_group(list, i) or i + 1 end
      i = i + 1
    elseif t.kind ~= "string" and opens[t.text] then
      local stop = behind_group(list, i)
      for k = i + 1, stop - 1 do note_argument(list, k, found.arguments, path, found.locals) end
      i = stop
    else
      i = i + 1
    end
  end
  return i
end

local function join(path, key)
  if type(key) == "number" then return path .. "[" .. key .. "]" end
  return path == "" and key or path .. "." .. key
end

-- The table that opens at i; returns the index behind it.
function read_table(list, i, path, found)
  local index = 0
  i = i + 1
  while list[i] and list[i].kind ~= "}" do
    local t, second, third = list[i], list[i + 1], list[i + 2]
    if t.kind == "," or t.kind == ";" then
      i = i + 1
    elseif t.kind == "name" and second and second.kind == "=" then
      local at = join(path, t.text)
      found.line[at], found.arguments[at] = t.line, nil
      i = read_value(list, i + 2, at, found)
    elseif t.kind == "[" and second and second.kind == "string" and third and third.kind == "]" then
      local at = join(path, second.text)
      found.line[at], found.arguments[at] = t.line, nil
      i = read_value(list, i + 4, at, found)
    else
      index = index + 1
      local at = join(path, index)
      found.line[at], found.arguments[at] = t.line, nil
      i = read_value(list, i, at, found)
    end
  end
  return i + 1
end

-- lines.of(source) → { key path = line }, { key path = { names of arguments } }; "" is the line of the return itself.
function lines.of(source)
  local list, i = tokens_of(source), 1
  local found = { line = {}, arguments = {}, locals = {} }
  while list[i] do
    local t = list[i]
    if t.kind == "name" and t.text == "return" then
      found.line, found.arguments = { [""] = t.line }, {}
      i = read_value(list, i + 1, "", found)
    elseif t.text == "local" and list[i + 2] and list[i + 2].kind == "=" then
      i = read_local(list, i + 3, list[i + 1].text, found)
    elseif t.kind ~= "string" and opens[t.text] then
      i = behind_group(list, i)
    else
      i = i + 1
    end
  end
  return found.line, found.arguments
end

return lines
