-- faulty_spec.lua: recipes that must fail, each with its exact words: faulty/NAME.lua, and faulty/NAME.txt beside it.
-- A text is "exit N" and what the command says, to the byte; [any] stands for what the plan makes of it, in a line. The
-- command is `ltrain-lua --check NAME.lua`, run in their folder, or with the words of a second line "-- arguments: …".
-- To add one: write NAME.lua, read what is said, keep it.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

local folder = os.getenv "LT_TEST_DATA" .. "/recipes/faulty"
local absolute = folder:sub(1, 1) == "/"

local function names()
  local out, list = {}, io.popen("ls '" .. folder .. "'")
  for name in list:lines() do out[#out + 1] = name:match "^(.*)%.lua$" end
  list:close()
  return out
end

local function run(name)
  local arguments = command.read(folder .. "/" .. name .. ".lua"):match "^[^\n]*\n%-%- arguments: ([^\n]*)"
  local out = io.popen(string.format("cd '%s' && { '%s' %s.lua %s 2>&1; echo exit $?; }", folder, command.path, name,
    arguments or "--check"))
  local text = out:read "*a"
  out:close()
  local said, status = text:match "^(.*)(exit %d+)\n$"
  return status .. "\n" .. said
end

-- What was said, with every [any] of the text in the place of what it stands for.
local function blurred(text, said)
  local pattern = "^" .. text:gsub("[%^%$%(%)%%%.%*%+%-%?%[%]]", "%%%0"):gsub("%%%[any%%%]", "[^\n]+") .. "$"
  return text:find("[any]", 1, true) and said:match(pattern) and text or said
end

describe("a faulty recipe", function()
  assert(absolute, "LT_TEST_DATA must be absolute")
  for _, name in ipairs(names()) do
    it("says what is wrong: " .. name, function()
      local text = command.read(folder .. "/" .. name .. ".txt")
      assert.equal(text, blurred(text, run(name)))
    end)
  end
  it("is one of at least forty", function() assert.is_true(#names() >= 40) end)
end)
