-- ulysses_long_spec.lua: what ulysses_spec.lua samples, whole: sp 2, 3, 4, 8 x tp 1, 2 x kv heads 1, 2, 3, 8 x
-- partitions x shards x units x recomputation.
local exchanges = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/exchanges.lua")
local decoders = exchanges.decoders

for _, entry in ipairs(exchanges.models) do
  describe("a decoder of " .. entry[1], function()
    for _, sp in ipairs { 2, 3, 4, 8 } do
      for tp = 1, 2 do
        it(("agrees with one rank, heads cut on sp %d, tp %d"):format(sp, tp), function()
          for shard = 0, 3 do
            for units = 1, 2 do
              for i, partition in ipairs { "balanced", "zigzag", "striped", "contiguous" } do
                decoders.check(entry[2], { mesh = { sp = sp, tp = tp }, exchange = "ulysses", shard = shard,
                  units = units, partition = partition, block = 1 + (shard + i) % 3,
                  checkpoint = (units + i) % 2 == 0 and "layers" or nil })
              end
            end
          end
        end)
      end
    end
    for _, part in ipairs { { 4, 2 }, { 6, 3 }, { 6, 2 }, { 8, 2 }, { 8, 4 } } do
      it(("agrees with one rank, heads cut on %d of sp %d"):format(part[2], part[1]), function()
        for shard = 0, 3 do
          for _, list in ipairs { "two_level_ulysses", { "two_level_ulysses", "all_gather" },
            { "ulysses", "two_level_ulysses" } } do
            for tp = 1, 2 do
              decoders.check(entry[2], { mesh = { sp = part[1], tp = tp }, inner = part[2], exchange = list,
                shard = shard, units = 1 + shard % 2, partition = shard % 2 == 0 and "zigzag" or nil,
                checkpoint = shard == 1 and "layers" or nil, block = 1 + shard % 3 })
            end
          end
        end
      end)
    end
  end)
end
