-- reference_spec.lua: the reference page and the stubs are what the schema makes; every key is described.
local reference = require "ltrain.reference"
local schema = require "ltrain.schema"
local root = os.getenv "LT_TEST_DATA" .. "/../"

local function each_field(fields, path, visit)
  for _, field in ipairs(fields) do
    visit(field, schema.join(path, field[1]))
    local inside = field.type ~= "made" and schema.fields_in(field, {})
    if inside then each_field(inside, schema.join(path, field[1]), visit) end
  end
end

describe("the schema", function()
  for _, file in ipairs(reference.files()) do
    it("is what " .. file[1] .. " says", function()
      local f = assert(io.open(root .. file[1], "rb"))
      local text = f:read "*a"
      f:close()
      assert.is_true(text == file[2], file[1] .. " is stale: ltrain-lua --script lua/reference.lua writes it anew")
    end)
  end
  it("describes every key: a type, a sentence, and a default or that it is needed", function()
    local n = 0
    local function check(field, path)
      n = n + 1
      assert.is_table(schema.types[field.type], path)
      assert.matches("^%u.*%.$", field.doc, nil, nil, path)
      assert.is_true(#schema.types[field.type].text(field) > 0, path)
      assert.is_falsy(field.required and field.default ~= nil, path)
    end
    each_field(schema.root, "", check)
    for _, made in ipairs(schema.constructors) do
      assert.matches("^%u.*%.$", made.doc)
      each_field(made.fields, made.name, check)
    end
    assert.is_true(n > 60)
  end)
  it("has defaults that it would accept", function()
    local function check(field, path)
      local faults = {}
      if field.default ~= nil then schema.check(nil, field, path, faults) end
      assert.same({}, faults)
    end
    each_field(schema.root, "", check)
    for _, made in ipairs(schema.constructors) do each_field(made.fields, made.name, check) end
  end)
  it("refuses what is out of the range of a number, at both ends", function()
    local n = 0
    local function check(field, path)
      if field.type ~= "integer" and field.type ~= "number" then return end
      for _, x in ipairs { field.min and field.min - 1 - math.abs(field.min) or false,
        field.max and field.max * 2 + 1 or false, field.above or false, field.below or false } do
        if x then
          local faults = {}
          schema.check(x, field, path, faults)
          assert.equal(1, #faults, path)
          n = n + 1
        end
      end
    end
    each_field(schema.root, "", check)
    for _, made in ipairs(schema.constructors) do each_field(made.fields, made.name, check) end
    assert.is_true(n > 50)
  end)
end)
