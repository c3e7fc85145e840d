-- golden_spec.lua: the runner of reference values itself: it must notice what is wrong, and not pass over nothing.
local golden = os.getenv "LT_TEST_DATA"
local program = arg[-1]

-- Run it on a folder; its output and exit status.
local function run(folder)
  local command = string.format("('%s' --script '%s/golden.lua' '%s'; echo status $?)", program, golden, folder)
  local f = assert(io.popen(command .. " 2>&1"))
  local out = f:read "*a"
  f:close()
  return out, tonumber(out:match "status (%d+)\n$")
end

-- A folder with copies of reference files; change(name, tensor) may return another tensor.
local function folder_with(names, change)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir '" .. folder .. "'") == 0)
  for _, name in ipairs(names) do
    local f, list = lt.safetensors.open(golden .. "/golden/" .. name .. ".safetensors"), {}
    for _, key in ipairs(f:names()) do
      local t = f:read(key)
      list[#list + 1] = { key, change and change(key, t) or t }
    end
    lt.safetensors.write(folder .. "/" .. name .. ".safetensors", list, f:metadata())
    f:close()
  end
  return folder
end

describe("tests/golden.lua", function()
  local folders = {}
  local function with(...)
    folders[#folders + 1] = folder_with(...)
    return folders[#folders]
  end
  teardown(function() for _, folder in ipairs(folders) do os.execute("rm -rf '" .. folder .. "'") end end)

  it("accepts the right values, in both types, on 1, 2 and 3 ranks", function()
    local out, status = run(with { "swiglu", "decoder_window", "decoder_moe" })
    assert.equal(0, status)
    assert.matches("skipped decoder_moe\n", out)
    for _, name in ipairs { "swiglu", "decoder_window" } do
      for _, real in ipairs { "f32", "f64" } do
        for ranks = 1, 3 do
          assert.matches(string.format("ok %s %s %d [%%d%%.e+-]+/[%%d%%.e+-]+ %%S+\n", name, real, ranks), out)
        end
      end
    end
  end)
  it("notices one wrong element", function()
    local out, status = run(with({ "rmsnorm" }, function(key, t)
      if key == "grad_weight" then
        t:set(3, t:get(3) + 1e-4 * t:max_abs())
        return t
      end
    end))
    assert.equal(1, status)
    assert.matches("not ok rmsnorm f32 1 %S+ grad_weight", out)
    assert.matches("not ok rmsnorm f64 3 %S+ grad_weight", out)
  end)
  it("notices a parameter that went elsewhere after three steps", function()
    local out, status = run(with({ "decoder_dense" }, function(key, t)
      if key == "after.lm_head.weight" then
        t:set(1, 1, t:get(1, 1) + 0.01)
        return t
      end
    end))
    assert.equal(1, status)
    assert.matches("not ok decoder_dense f64 2 %S+ after.lm_head.weight", out)
  end)
  it("does not pass over a folder with nothing it knows", function()
    local out, status = run(with { "evict_token" })
    assert.equal(1, status)
    assert.matches("no file of %S+ is known", out)
    assert.equal(1, select(2, run(with {})))
    assert.equal(1, select(2, run "/nonexistent"))
  end)
end)
