-- lr_spec.lua: learning rates: where each curve starts, turns and ends.
local lr = require "ltrain.lr"

describe("lr", function()
  local function curve(spec)
    local checked = lt.check(lt.optim.adamw { lr = spec }, "optim").lr
    return function(step) return lr.at(checked, step, 100) end
  end

  it("may be a number or a function", function()
    assert.equal(0.5, curve(0.5)(7))
    assert.equal(7, curve(function(step) return step end)(7))
  end)
  it("warms up to its peak and stays", function()
    local at = curve(lt.lr.constant { peak = 2, warmup = 4 })
    assert.same({ 0.5, 1, 1.5, 2, 2, 2 }, { at(0), at(1), at(2), at(3), at(4), at(99) })
  end)
  it("falls along half a cosine to its floor and stays there", function()
    local at = curve(lt.lr.cosine { peak = 1, warmup = 20, floor = 0.2 })
    assert.near(1, at(20), 1e-12)
    assert.near(0.6, at(60), 1e-12)
    assert.near(0.2, at(100), 1e-12)
    assert.near(0.2, at(1000), 1e-12)
    assert.near(0.5, curve(lt.lr.cosine { peak = 1, floor = 0, steps = 50 })(25), 1e-12)
  end)
  it("stays, then descends on a line", function()
    local at = curve(lt.lr.wsd { peak = 1, decay = 10, floor = 0 })
    assert.same({ 1, 1, 0.5, 0, 0 }, { at(0), at(90), at(95), at(100), at(200) })
    assert.equal(1, curve(lt.lr.wsd { peak = 1 })(79))
    assert.is_true(curve(lt.lr.wsd { peak = 1 })(81) < 1)
  end)
end)
