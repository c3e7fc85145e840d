-- hide_spec.lua: lt.policy.hide, told made-up times: how many hops of an exchange it lets be under way.

-- Both modules afresh: without the controls of other recipes.
local function fresh()
  package.loaded["ltrain.control"], package.loaded["ltrain.policy"] = nil, nil
  return require "ltrain.control", require "ltrain.policy"
end

describe("lt.policy.hide", function()
  -- The depth after every step of which so much was spent waiting; most: layout.max_depth.
  local function depths(most, waited)
    local control, policy = fresh()
    control.builtin("layout.depth", 1, 1, most, "speed")
    local ask = policy.collect { on_speed = policy.hide { share = 0.01, calm = 2 } }[1].fn
    local now, state, out = 1, nil, {}
    for i, share in ipairs(waited) do
      local set
      set, state = ask({ seconds = 2, waited = 2 * share, controls = { ["layout.depth"] = now } }, state)
      now = set and set["layout.depth"] or now
      out[i] = now
    end
    return out
  end
  it("goes further ahead while steps wait, as far as it may", function()
    assert.same({ 2, 3, 3, 3 }, depths(3, { 0.5, 0.5, 0.5, 0.5 }))
    assert.same({ 1, 1, 1 }, depths(1, { 0.5, 0.5, 0.5 }))
  end)
  it("stays where the waits are few but not none", function()
    assert.same({ 2, 2, 2, 2, 2 }, depths(3, { 0.5, 0.005, 0.005, 0.005, 0.005 }))
  end)
  it("tries less when it is calm, and not again what made it wait", function()
    assert.same({ 2, 3, 3, 2, 3, 3, 3, 3 }, depths(3, { 0.5, 0.5, 0, 0, 0.5, 0, 0, 0 }))
    assert.same({ 2, 2, 1, 1, 1 }, depths(3, { 0.5, 0, 0, 0, 0 }))
  end)
  it("has nothing to say where there is no depth", function()
    local _, policy = fresh()
    local ask = policy.collect { on_speed = policy.hide {} }[1].fn
    assert.is_nil((ask({ seconds = 1, waited = 1, controls = {} }, nil)))
  end)
end)
