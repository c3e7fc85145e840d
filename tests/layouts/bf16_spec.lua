-- bf16_spec.lua: whole decoders computed in bf16 against the same in float32: near it, the same bits twice, and no
-- further from it on several ranks than on one: sums over ranks are formed in float32.
local decoders = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/decoders.lua")

-- Of every gradient of the first step: the length of the difference over that of the reference; and of all together.
local function errors(got, reference)
  local each, all = {}, 0
  for name, x in pairs(reference.gradient) do
    local a, b, off, size = got.gradient[name]:flat(), x:flat(), 0, 0
    for i = 1, #b do
      off, size = off + (a[i] - b[i]) ^ 2, size + b[i] ^ 2
    end
    each[name] = math.sqrt(off / size)
    all = all + off / size
  end
  return math.sqrt(all), each
end

local function run(m, layout)
  layout.dtype, layout.ranks = layout.dtype or "bf16", 1
  for _, n in pairs(layout.mesh or {}) do layout.ranks = layout.ranks * n end
  return decoders.run(m, layout)
end

local layouts = {
  { mesh = { dp = 2 } }, { mesh = { dp = 3 }, shard = 3 }, { mesh = { sp = 2 } }, { mesh = { sp = 3 }, shard = 2 },
  { mesh = { tp = 2 } }, { mesh = { tp = 3 } }, { mesh = { tp = 4 }, shard = 1 },
  { mesh = { dp = 2, tp = 2 }, shard = 3 },
  { mesh = { dp = 2, sp = 2 } }, { mesh = { sp = 2, tp = 2 }, units = 2 }, { mesh = {}, units = 2 },
  { mesh = {}, checkpoint = "layers" },
}

describe("a decoder in bf16", function()
  for _, entry in ipairs(decoders.models) do
    local m = entry[2]
    local reference, one, one_error, each
    setup(function()
      reference = run(m, { dtype = "f32" })
      one = run(m, {})
      one_error, each = errors(one, reference)
    end)

    it("is near float32: " .. entry[1], function()
      for step = 1, #one.loss do
        local off = math.abs(one.loss[step] - reference.loss[step]) / reference.loss[step]
        assert.is_true(off < (step == 1 and 1e-3 or 1e-2), "loss of step " .. step .. " off by " .. off)
        off = math.abs(one.norm[step] - reference.norm[step]) / reference.norm[step]
        assert.is_true(off < (step == 1 and 1e-2 or 4e-2), "norm of step " .. step .. " off by " .. off)
      end
      for name, e in pairs(each) do
        assert.is_true(e < 5e-2, name .. ": off by " .. e)
        assert.is_true(e > 1e-5 or not name:match "proj", name .. " was not computed in bf16")
      end
      assert.is_true(one_error > 1e-4)
    end)

    it("has the same bits twice: " .. entry[1], function()
      assert.is_nil(decoders.difference(one, run(m, {}), 0))
    end)

    for _, layout in ipairs(layouts) do
      it("errs no more than one rank on " .. decoders.text(layout) .. ": " .. entry[1], function()
        local all, of = errors(run(m, layout), reference)
        assert.is_true(all <= 1.25 * one_error, string.format("%g, one rank %g", all, one_error))
        for name, e in pairs(of) do
          local chance = #reference.gradient[name]:flat() == 1 and 5e-4 or 1e-4 -- a single number may be near by luck
          assert.is_true(e <= 2 * each[name] + chance, string.format("%s: %g, one rank %g", name, e, each[name]))
        end
      end)
    end
  end
end)
