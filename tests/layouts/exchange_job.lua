-- exchange_job.lua: cases of the matrix of exchanges on the ranks of a job: `mpirun ltrain-lua --script
-- exchange_job.lua COUNT SEED`. In float32 every case is compared with double on one rank, relative to each tensor;
-- every fourth also with the same ranks walked in one process, to the bit. Rank 0 prints faults, and how many it saw.
local lt = require "ltrain"
local attentions = dofile(os.getenv "LT_TEST_DATA" .. "/layouts/attentions.lua")
local count, seed = tonumber(arg[1]), tonumber(arg[2])
local world = lt.comm.world()
local sp = world.world
local few = { { kv = 1, q = 3, window = 0 }, { kv = 3, q = 3, window = 4, bias = true }, { kv = 8, q = 8, window = 0 },
  { kv = 2, q = 4, window = 6 } }

local x = seed * 7919 + sp
local function draw(n)
  x = (x * 16807 + 11) % 2147483647
  return math.floor(x / 2147483647 * n)
end

local function say(...)
  if world.rank == 0 then print(...) end
end

-- ‖Δ‖ of the reference's norm, and the largest difference of its largest element. NaN is far.
local function differences(got, expected)
  local a, b, sum, whole = got:cast("f64"):flat(), expected:flat(), 0, 0
  for i = 1, #b do sum, whole = sum + (a[i] - b[i]) ^ 2, whole + b[i] ^ 2 end
  return math.sqrt(sum / math.max(whole, 1e-12)), got:cast("f64"):max_abs_difference(expected) / expected:max_abs()
end

local function step_of(case)
  local tokens = case % 10 == 9 and 300 or 1 + (case * 7 + seed) % (4 * sp + 3)
  return attentions.table_of(tokens, { mean = case % 3 > 0 and 2 + case % 11 or nil, rows = 1 + case % 5 % 3,
    gaps = case % 7 == 0, apart = case % 4 == 1, seed = case })
end

local compared, bits = 0, 0
for case = 1, count do
  local step = step_of(case)
  local layout = { mesh = { sp = sp }, ranks = sp, heads = few, dtype = "f32", units = 1 + draw(3), block = 1 + draw(3),
    exchange = attentions.names[case % #attentions.names + 1], inner = sp % 2 == 0 and 2 or nil,
    max_depth = 1 + draw(3), partition = attentions.partitions[draw(5) + 1] or attentions.scattered, max_share = 100 }
  local fed, rounded = attentions.arrays(few, step), {}
  for name, a in pairs(fed) do rounded[name] = a:cast("f32"):cast "f64" end
  local one = attentions.program({ heads = few }, attentions.most { step })
  local exact = attentions.step(one, few, step, "f64", rounded)
  one:close()

  local function run()
    local p = attentions.program(layout, attentions.most { step })
    local got, here = attentions.step(p, few, step, "f32", fed), p:traffic()
    for r = 1, sp do -- of a job, a process runs its own rank and no other
      local runs = not layout.world or r == world.rank + 1
      if (here[r] ~= nil) ~= runs then say("rank " .. r - 1 .. " runs elsewhere") end
    end
    if layout.world and pcall(world.handle.close, world.handle) then say "closed under a program" end
    p:close()
    return got
  end
  layout.world = true
  local got = run()
  layout.world = nil
  for name, reference in pairs(exact) do
    local norm, most = differences(got[name], reference)
    if reference:max_abs() < 1e-6 then norm, most = got[name]:max_abs(), 0 end -- nothing but rounding
    if norm ~= norm or norm > 1e-5 or most ~= most or most > 1e-4 then
      say(("case %d, %s, %d tokens: %s is off by %g, %g"):format(case, attentions.text(layout), step.tokens, name, norm,
        most))
    end
  end
  compared = compared + 1
  if case % 4 == 0 then
    for name, walked in pairs(run()) do
      if not got[name]:equal(walked) then say(("case %d: %s has other bits"):format(case, name)) end
    end
    bits = bits + 1
  end
end
say(("%d ranks: %d cases compared, %d to the bit"):format(sp, compared, bits))
