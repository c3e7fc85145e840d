-- make.lua: the text of recall.lua: `ltrain-lua --script recipes/recall/make.lua FILE.jsonl [DOCUMENTS]`.
-- A line is a document of 2048 bytes with a table of its own: which of 36 characters belongs to each of the letters a
-- to p. The same call writes the same bytes.
local file, count = arg[1], tonumber(arg[2] or 2000)
if not file or not count then
  io.stderr:write "usage: ltrain-lua --script make.lua FILE.jsonl [DOCUMENTS]\n"
  os.exit(2)
end

local letters, characters = "abcdefghijklmnop", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
local draw = lt.random(1, "recall")

-- Fisher and Yates: every order is as likely as any other.
local function shuffle(list)
  for i = #list, 2, -1 do
    local j = draw:int(1, i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

-- 4 times 256 bytes, each about four of the letters: fAkRcJp0 … cJfAp0kR …, 32 times over, always in another order. 992
-- bytes say nothing. 32 ask for all letters in the order of the alphabet: who has read the first half knows the rest.
local function document()
  local known, said = {}, {}
  for letter in letters:gmatch "." do
    local at = draw:int(1, #characters)
    known[#known + 1] = letter .. characters:sub(at, at)
  end
  local asked = table.concat(known)
  shuffle(known)
  for first = 1, #known, 4 do
    local four = { known[first], known[first + 1], known[first + 2], known[first + 3] }
    for _ = 1, 32 do said[#said + 1] = table.concat(shuffle(four)) end
  end
  return table.concat(said) .. ("."):rep(992) .. asked
end

local out, fault = io.open(file, "wb")
local written = out ~= nil
for _ = 1, count do
  if written then written, fault = out:write('{"text":"', document(), '"}\n') end
end
if written then written, fault = out:close() end
if not written then
  io.stderr:write("make.lua: ", fault, "\n")
  os.exit(1)
end
