-- overlap_spec.lua: where the exchange pass puts transfers: hops ahead of the attention that waits for them, and behind
-- what comes back last the gradients that do not need it. `--stage exchange` is what is looked at.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

describe("The exchange pass", function()
  local folder
  setup(function()
    folder = command.scratch()
    command.write_text(folder)
    command.write(folder .. "/r.lua", [[
return {
  data = { train = "text/*.txt", length = 64 },
  model = lt.nn.decoder { width = 16, layers = 1, heads = 2, ffn = lt.nn.gelu { hidden = 24 } },
  layout = { mesh = { sp = 3 }, exchange = lt.arg("exchange", "ring"), max_depth = lt.arg("depth", 1) },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 64, steps = 1 },
}]])
  end)
  teardown(function() command.remove(folder) end)

  -- The nodes of the layer's attention in a phase, in order: "hop 1", "back 1", or the operation's name.
  local function nodes(phase, arguments)
    local status, said = command.run(folder, "--stage exchange --ranks 3 " .. folder .. "/r.lua " .. arguments)
    assert.equal(0, status, said)
    local list, inside = {}, false
    for line in said:gmatch "[^\n]+" do
      if not line:match "^ " then inside = line == phase .. " layer 0/attention" end
      local op = inside and line:match "= ([%w_]+)%("
      local hop, back = line:match "hop=(%d+), back=(%a+)"
      if op == "hop" then op = (back == "true" and "back " or "hop ") .. hop end
      if op then list[#list + 1] = op end
    end
    assert.is_true(#list > 0)
    return list
  end
  local function first(list, op, after)
    for i = (after or 0) + 1, #list do if list[i] == op then return i end end
    error("no " .. op .. " in " .. table.concat(list, ", "))
  end
  local function last(list, op)
    for i = #list, 1, -1 do if list[i] == op then return i end end
    error("no " .. op)
  end

  it("starts a hop before the attention that runs meanwhile, as far ahead as max_depth", function()
    for _, exchange in ipairs { "ring", "direct" } do
      local list = nodes("forward", "exchange=" .. exchange)
      local own = first(list, "attention_hop")
      assert.is_true(last(list, "hop 1") < own)
      assert.is_true(first(list, "hop 2") > own and last(list, "hop 2") < first(list, "attention_hop", own))
      list = nodes("forward", "depth=2 exchange=" .. exchange)
      assert.is_true(last(list, "hop 2") < first(list, "attention_hop"))
    end
  end)
  it("lets what comes back last wait behind the gradients of the queries", function()
    local list = nodes("backward", "")
    local back, sum = last(list, "back 2"), last(list, "add_rows")
    assert.is_true(first(list, "matmul", back) < sum and first(list, "rope", back) < sum, table.concat(list, ", "))
    assert.is_true(first(list, "add_rows") < first(list, "rope", back)) -- what came back before does not wait
  end)
end)
