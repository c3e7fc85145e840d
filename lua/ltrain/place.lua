-- place.lua: layout.place: where parameters lie, by patterns of their names, over what layers and optimizer say.
-- { ["model.layers.*.mlp.*"] = "replicated", ["lm_head.weight"] = { tp = 1, shard = 3 } }: `*` is any run of letters,
-- tp the dimension that is cut, shard the level over dp and sp. Results do not depend on it; its price is the pass's.
local core = require "ltrain.core"

local place = {}
local methods = {}
local meta = { __index = methods }

local dimensions = { out = 0, ["in"] = 1 }

local function whole(x, most) return type(x) == "number" and x % 1 == 0 and x >= 0 and x <= most end

-- What one entry says: { tp = the dimension cut, or false: whole on every rank, shard = 0 to 3 }, each nil where
-- nothing is said of it. nil where it says nothing known.
function place.read(value)
  if value == "replicated" then return { tp = false } end
  if type(value) ~= "table" then return nil end
  for key in pairs(value) do if key ~= "tp" and key ~= "shard" then return nil end end
  local dim = dimensions[value.tp] or value.tp
  if dim ~= nil and dim ~= false and not whole(dim, 7) then return nil end
  if value.shard ~= nil and not whole(value.shard, 3) then return nil end
  if dim == nil and value.shard == nil then return nil end
  return { tp = dim, shard = value.shard }
end

-- The keys of layout.place, in the order of their text.
function place.patterns(entries)
  local texts = {}
  for text in pairs(entries or {}) do texts[#texts + 1] = text end
  table.sort(texts, function(a, b) return tostring(a) < tostring(b) end)
  return texts
end

local function pattern_of(text)
  local out = {}
  for i = 1, #text do
    local c = text:sub(i, i)
    out[i] = c == "*" and ".*" or c:match "%w" and c or "%" .. c
  end
  return "^" .. table.concat(out) .. "$"
end

-- The entries of layout.place; a decision for every parameter is asked with places:of.
function place.new(entries)
  local list = {}
  for i, text in ipairs(place.patterns(entries)) do
    local key, says = "layout.place." .. text, place.read(entries[text])
    if not says then
      core.fail { what = "is no placement", key = key, expected = '"replicated" or { tp = dimension, shard = 0 to 3 }' }
    end
    list[i] = { text = text, key = key, pattern = pattern_of(text), says = says }
  end
  return setmetatable({ list = list }, meta)
end

-- The entry that says something of a parameter, nil if none does; two may not disagree.
local function agreed(self, name, thing)
  local found
  for _, entry in ipairs(self.list) do
    if entry.says[thing] ~= nil and name:find(entry.pattern) then
      if found and found.says[thing] ~= entry.says[thing] then
        core.fail { what = string.format("two patterns place '%s' differently", name), key = entry.key,
          got = string.format("%s and %s", found.text, entry.text), hint = "make one of the patterns narrower" }
      end
      found = entry
    end
  end
  return found
end

-- Of a parameter: the dimension that tp cuts, nil for none: what an entry says, or `own`; and its level of sharding,
-- nil: that of all.
function methods.of(self, name, rank, own)
  for _, entry in ipairs(self.list) do entry.used = entry.used or name:find(entry.pattern) ~= nil end
  local cut, shard = agreed(self, name, "tp"), agreed(self, name, "shard")
  local dim = own
  if cut then dim = cut.says.tp or nil end
  if cut and dim and dim >= rank then
    core.fail { what = string.format("'%s' has no such dimension", name), key = cut.key,
      expected = string.format("0 to %d", rank - 1), got = tostring(dim) }
  end
  return dim, shard and shard.says.shard
end

-- After building: every pattern was the name of something.
function methods.check(self)
  for _, entry in ipairs(self.list) do
    if not entry.used then
      core.fail { what = "no parameter has such a name", key = entry.key, got = entry.text,
        hint = "--stage build lists their names" }
    end
  end
end

return place
