-- partition_spec.lua: whole decoders on 2 to 4 ranks of sp, their blocks dealt by every partition, against one rank in
-- double: packed documents of uneven lengths, windows, fewer blocks than ranks.
local decoders = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/decoders.lua")

-- Blocks from the last to the first, in turn; what it is asked is kept.
local asked = {}
local function backwards(sequence)
  local owner = {}
  for b = 1, sequence.blocks do owner[b] = (sequence.blocks - b) % sequence.ranks end
  asked[#asked + 1] = sequence
  return owner
end

describe("a decoder over sp", function()
  for i, entry in ipairs(decoders.models) do
    for _, partition in ipairs { "contiguous", "zigzag", "striped", "balanced", backwards } do
      local name = type(partition) == "string" and partition or "a function"
      it("agrees with one rank: " .. entry[1] .. ", " .. name, function()
        for sp = 2, 4 do
          for block = 1, 3, 2 do
            local units = sp == 3 and 2 or 1
            decoders.check(entry[2], { mesh = { sp = sp }, block = block, partition = partition, units = units })
          end
        end
      end)
    end
    if i == 1 then
      it("agrees with one rank beside dp and tp", function()
        decoders.check(entry[2], { mesh = { dp = 2, sp = 2 }, partition = "zigzag", shard = 3, checkpoint = "layers" })
        decoders.check(entry[2], { mesh = { sp = 2, tp = 2 }, partition = "striped", shard = 2 })
      end)
    end
  end
end)

describe("a function in the place of a partition", function()
  local m = decoders.models[2][2]
  it("is told what there is to deal", function()
    asked = {}
    decoders.check(m, { mesh = { sp = 2 }, block = 3, partition = backwards })
    assert.is_true(#asked >= 5 + 3 + 2)
    local s = asked[1]
    assert.same({ 11, 3, 4, 2, 0, 3 }, { s.tokens, s.block, s.blocks, s.ranks, s.index, s.most })
    local sum = 0
    for _, n in ipairs(s.documents) do sum = sum + n end
    assert.equal(11, sum)
    assert.is_true(#s.documents > 1)
  end)
  local function refused(partition, text, max_share)
    local ok, e = pcall(decoders.check, m, { mesh = { sp = 2 }, partition = partition, max_share = max_share })
    assert.is_false(ok)
    assert.matches(text, e, 1, true)
  end
  local function all_on_last(s)
    local owner = {}
    for b = 1, s.blocks do owner[b] = s.ranks - 1 end
    return owner
  end
  it("must keep to max_share, or is told of the rank", function()
    refused(all_on_last, "the partition gives rank 1 more than layout.max_share allows")
    decoders.check(m, { mesh = { sp = 2 }, partition = all_on_last, max_share = 2 })
  end)
  it("must name a rank for every block", function()
    refused(function() return {} end, "a partition gives block 1 of 11 a rank from 0 to 1")
    refused(function(s) local o = all_on_last(s) o[3] = 0.5 return o end, "a partition gives block 3 of 11 a rank")
    refused(function() return 1 end, "a partition returns the ranks of all blocks, as a table")
    refused(function() error "no idea" end, "no idea")
    refused("diagonal", "partition is")
  end)
end)
