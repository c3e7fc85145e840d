-- overlap_spec.lua: where the exchange pass puts transfers: hops ahead of the attention that waits for them, and before
-- what comes back is added, or waited for, the attention that does not need it: `--stage exchange` is what is looked
-- at. And how far ahead they are in runs, by the trace of a step.
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
  layout = { mesh = { sp = lt.arg("sp", 3) }, inner = lt.arg("inner", 1), exchange = lt.arg("exchange", "ring"),
    max_depth = lt.arg("depth", 1) },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 64, steps = 1 },
}]])
  end)
  teardown(function() command.remove(folder) end)

  -- The nodes of the layer's attention in a phase, in order: "hop 1", "back 1", "home 1", "part 1 of 2", or the
  -- operation's name.
  local function nodes(phase, arguments, ranks)
    local sp = ranks or 3
    local status, said = command.run(folder,
      ("--stage exchange --ranks %d %s/r.lua sp=%d %s"):format(sp, folder, sp, arguments))
    assert.equal(0, status, said)
    local list, inside = {}, false
    for line in said:gmatch "[^\n]+" do
      if not line:match "^ " then inside = line == phase .. " layer 0/attention" end
      local op = inside and line:match "= ([%w_]+)%("
      local hop, back = line:match "hop=(%d+), tensor=%d, back=(%a+)"
      local part, parts = line:match "part=(%d+), parts=(%d+)"
      if op == "hop" then op = (back == "true" and "back " or "hop ") .. hop end
      if op == "hop_home" then op = "home " .. line:match "hop=(%d+)" end
      if parts and parts ~= "1" then op = ("part %d of %s"):format(part + 1, parts) end
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
  -- The order of these among the nodes of the backward pass, each by the last of that name.
  local function in_order(list, names)
    for i = 2, #names do
      assert.is_true(last(list, names[i - 1]) < last(list, names[i]), names[i] .. " in " .. table.concat(list, ", "))
    end
  end
  it("divides what a rank's own keys give: before the first hop, and while the last gradients go back", function()
    local list = nodes("backward", "exchange=ring")
    in_order(list, { "hop 1", "part 1 of 2", "attention_hop_backward", "back 2", "part 2 of 2", "add_rows", "rope" })
    local second = first(list, "attention_hop_backward", first(list, "attention_hop_backward"))
    assert.is_true(second < first(list, "add_rows")) -- what comes back before the last is added meanwhile
    assert.is_true(first(list, "add_rows") < first(list, "part 2 of 2"))
    list = nodes("backward", "exchange=direct")
    in_order(list, { "hop 1", "part 1 of 2", "attention_hop_backward", "home 2", "part 2 of 2", "rope" })
    assert.is_true(last(list, "home 1") < last(list, "attention_hop_backward"))
    local sum = first(list, "add") -- of what came home and the rank's own
    assert.is_true(sum > last(list, "part 2 of 2") and sum < first(list, "rope"))
  end)
  it("predicts the parts as what they are together: five products a pair, forward two", function()
    local status, said = command.run(folder, "--stage lower --json --ranks 3 " .. folder .. "/r.lua")
    assert.equal(0, status, said)
    local flops = { attention_hop = 0, attention_last = 0, attention_hop_backward = 0 }
    for _, item in ipairs(lt.json.decode(said)[1].items) do
      local op = item.label:match "[%w_]+$"
      if flops[op] then flops[op] = flops[op] + item.flops end
    end
    assert.is_true(flops.attention_last > 0)
    assert.equal(2.5 * (flops.attention_hop + flops.attention_last), flops.attention_hop_backward)
  end)
  it("does so for each level of two", function()
    local list = nodes("backward", "exchange=two_level inner=2", 4)
    in_order(list, { "hop 1", "hop 2", "part 1 of 3", "attention_hop_backward", "back 3", "part 2 of 3", "back 2",
      "part 3 of 3", "add_rows", "rope" })
    assert.is_true(first(list, "add_rows", first(list, "part 2 of 3")) < first(list, "back 2"))
  end)
  it("adds what comes back as many hops later as may be under way", function()
    for depth = 1, 2 do
      local list, hops = nodes("backward", "exchange=ring depth=" .. depth, 4), 0
      for i = 1, first(list, "add_rows") do
        if list[i] == "attention_hop_backward" then hops = hops + 1 end
      end
      assert.equal(1 + depth, hops, table.concat(list, ", "))
    end
  end)
end)

local HOP = 2 -- the lane, as the trace numbers them

describe("lt.policy.hide", function()
  local folder, file
  setup(function()
    folder, file = command.prepare [[
return {
  data = { train = "text/*.txt", length = 256 },
  model = lt.nn.decoder { width = 16, layers = 4, heads = 2 },
  layout = { mesh = { sp = 4 }, exchange = lt.arg("exchange", "direct"), partition = "striped", block = 8,
    max_depth = 3, depth = 1 },
  on_speed = lt.arg("hides", true) and lt.policy.hide { share = 0 } or nil, -- any wait is too much
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 256, steps = 5 },
}]]
  end)
  teardown(function() command.remove(folder) end)

  -- The depth of the step traced, and by how many hops the transfers of a rank were ahead of its attention, at most.
  local function ahead(name, step)
    local _, records = command.metrics(folder .. "/" .. name)
    local depth, most = (records[step + 1].controls or {})["layout.depth"] or 1, 0
    local trace = lt.json.decode(command.read(folder .. "/" .. name .. "/trace.json")).traceEvents
    for at = 0, 15 do
      local rank, wanted = at % 4, "^layer " .. math.floor(at / 4) .. "/attention ([%w_]+)$"
      local hops, places = {}, {}
      for _, event in ipairs(trace) do
        local op = event.ph == "X" and event.pid == rank and event.name:match(wanted)
        -- what comes of k and v of three; what follows is backward
        if op == "hop" and event.tid == HOP and #hops < 6 then hops[#hops + 1] = event.ts end
        if op == "attention_hop" or op == "attention_last" then places[#places + 1] = event.ts + event.dur end
      end
      assert.equal(6, #hops)
      assert.equal(4, #places)
      for p, ended in ipairs(places) do
        local begun = 0
        for _, began in ipairs(hops) do if began < ended then begun = begun + 1 end end
        most = math.max(most, math.ceil(begun / 2) - (p - 1))
      end
    end
    return depth, most
  end

  it("moves the depth of a run that waits, and its hops are further ahead", function()
    for _, exchange in ipairs { "direct", "ring" } do
      local arguments = "--ranks 4 exchange=" .. exchange
      command.train(folder, exchange .. "1", arguments .. " hides=false --set train.trace=4")
      command.train(folder, exchange .. "3", arguments .. " --set train.trace=4")
      local depth, most = ahead(exchange .. "1", 4)
      assert.same({ 1, 1 }, { depth, most })
      depth, most = ahead(exchange .. "3", 4)
      assert.equal(3, depth)
      -- Who goes next is drawn, and round a ring one follows the other: seldom are two ahead.
      assert.is_true(most >= (exchange == "ring" and 1 or 2) and most <= 3, most)
    end
  end)
  it("is told no more seconds of transfers than their four lanes have, with many under way", function()
    command.write(folder .. "/many.lua", [[
return {
  data = { train = "text/*.txt", length = 1024 },
  model = lt.nn.decoder { width = 16, layers = 2, heads = 2 },
  layout = { mesh = { sp = 40 }, exchange = "direct", block = 8 },
  optim = lt.optim.adamw { lr = 1e-3 },
  train = { tokens = 1024, steps = 3 },
}]])
    local status, said = command.run(folder, ("--ranks 40 --run %s/many %s/many.lua"):format(folder, folder))
    assert.equal(0, status, said)
    local _, records = command.metrics(folder .. "/many")
    for _, r in ipairs(records) do
      local seconds = r.tokens / r.tokens_per_s
      assert.is_true(r.comm.seconds > 0 and r.comm.seconds <= 4 * seconds, r.comm.seconds .. " of " .. seconds)
    end
  end)
  it("does so in a job", function()
    if not command.has_mpi() then
      pending "there is no MPI in this build"
      return
    end
    local function job(name, more)
      local status, said = command.job(folder, 4,
        string.format("%s --set train.trace=4 --run %s/%s %s", file, folder, name, more))
      assert.equal(0, status, said)
      return ahead(name, 4)
    end
    assert.same({ 1, 1 }, { job("job1", "hides=false") })
    local depth, most = job("job3", "")
    assert.equal(3, depth)
    assert.is_true(most > 1 and most <= 3, most)
  end)
end)
