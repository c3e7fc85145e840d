-- place.lua: layout.place: how parameters lie on tp, by patterns of their names, over what a layer says of itself.
-- { ["model.layers.*.mlp.*"] = "replicated", ["lm_head.weight"] = { tp = 1 } }: `*` is any run of characters. Results
-- do not depend on it; what a placement costs is the place pass's business.
local core = require "ltrain.core"

local place = {}
local methods = {}
local meta = { __index = methods }

local dimensions = { out = 0, ["in"] = 1 }

-- What one entry says: the dimension cut on tp, or false: whole on every rank. nil where it says nothing known.
function place.read(value)
  if value == "replicated" then return false end
  if type(value) ~= "table" then return nil end
  for key in pairs(value) do if key ~= "tp" then return nil end end
  local dim = dimensions[value.tp] or value.tp
  if type(dim) == "number" and dim % 1 == 0 and dim >= 0 then return dim end
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
    local key, dim = "layout.place." .. text, place.read(entries[text])
    if dim == nil then
      core.fail { what = "is no placement", key = key, expected = '"replicated" or { tp = dimension }' }
    end
    list[i] = { text = text, key = key, pattern = pattern_of(text), dim = dim }
  end
  return setmetatable({ list = list }, meta)
end

-- Dimension of a parameter that tp cuts, nil for none: what an entry says, or `own`. Two entries may not disagree.
function methods.of(self, name, rank, own)
  local found
  for _, entry in ipairs(self.list) do
    if name:find(entry.pattern) then
      entry.used = true
      if found and found.dim ~= entry.dim then
        core.fail { what = string.format("two patterns place '%s' differently", name), key = entry.key,
          got = string.format("%s and %s", found.text, entry.text) }
      end
      found = entry
    end
  end
  if not found then return own end
  if found.dim and found.dim >= rank then
    core.fail { what = string.format("'%s' has no such dimension", name), key = found.key,
      expected = string.format("0 to %d", rank - 1), got = tostring(found.dim) }
  end
  return found.dim or nil
end

-- After building: every pattern was the name of something.
function methods.check(self)
  for _, entry in ipairs(self.list) do
    if not entry.used then core.fail { what = "no parameter has such a name", key = entry.key, got = entry.text } end
  end
end

return place
