-- exchange_long_spec.lua: the matrix of exchanges: ranks x exchanges (two levels by every inner size) x partitions,
-- each with whole and packed sequences of every length from 1 to 4 ranks + 3 and of about 1000 tokens; attention with
-- and without windows, 1, 2, 3 and 8 kv heads, with and without a bias. Against one rank, in double.
local attentions = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/attentions.lua")

local short, long = {}, {}
for n = 1, 4 * 8 + 3 do
  short[n] = { attentions.table_of(n, {}), attentions.table_of(n, { mean = 2 + n % 9, gaps = n % 3 == 0 }) }
end
-- Two documents that end inside of shares, the second between short ones; and two whole sequences.
long[1] = attentions.table_of(997, { mean = 150, seed = 1 })
long[2] = attentions.table_of(503, { rows = 2 })

local function up_to(ranks)
  local steps = {}
  for n = 1, 4 * ranks + 3 do
    for _, t in ipairs(short[n]) do steps[#steps + 1] = t end
  end
  return steps
end

for _, sp in ipairs { 1, 2, 3, 4, 8 } do
  local steps = up_to(sp)
  for _, exchange in ipairs(attentions.names) do
    it(("on %d ranks, by %s, agrees with one rank"):format(sp, exchange), function()
      local compared = 0
      for inner = 1, exchange:match "^two_level" and sp or 1 do
        for i = 1, sp % inner == 0 and 5 or 0 do
          local layout = { mesh = { sp = sp }, exchange = exchange, inner = inner > 1 and inner or nil,
            partition = attentions.partitions[i] or attentions.scattered, max_share = i == 5 and 100 or nil,
            block = i % 3 == 0 and 3 or 1 }
          compared = compared + attentions.check(layout, steps)
          if i == inner % 4 + 1 or exchange == "direct" and i < 5 then
            layout.heads, layout.block = attentions.few, 16
            compared = compared + attentions.check(layout, long)
          end
        end
      end
      assert.is_true(compared >= 5 * #steps + 2)
    end)
  end
end
