-- step.lua: benchmarks of whole training steps: tokens a second, beside the multiply-add peak of the same minutes.
-- ltrain-lua --script step.lua [--json FILE] [--threads N] [--clock wall|cpu] [--rounds N] [--quick] [--items]
--   [PATTERN]; --items: what the operations of a step took, each kind beside the peaks.
local ffi = require "ffi"

ffi.cdef [[
double peak_fma_f32(int64_t turns);
double peak_dot_bf16(int64_t turns);
double peak_triad(float *a, const float *b, const float *c, int64_t n);
double peak_clock(int processor_time, int threads);
int lt_cpu_threads(void);
void lt_cpu_set_threads(int n);
]]
local peaks = ffi.load(assert(os.getenv "LT_BENCH_PEAKS", "LT_BENCH_PEAKS must name the library of the peak loops"))

-- 124M: GPT-2's sizes with the feed-forward layer of 8/3 widths, 12 layers of width 768, output matrix tied.
local gpt2 = { vocab = 50304, width = 768, layers = 12, heads = 12, tied = true, ffn = { hidden = 2048 } }
local w256 = { vocab = 50304, width = 256, layers = 4, heads = 4, tied = true, ffn = { hidden = 688 } }
local bytes = { vocab = 256, width = 128, layers = 3, heads = 4, kv_heads = 2, ffn = { hidden = 336 } }
local cases = {
  { name = "step.small.f32.t4096", model = bytes, rows = 16, length = 256 },
  { name = "step.w256.f32.t1024", model = w256, rows = 1, length = 1024 },
  { name = "step.w256.f32.t8192", model = w256, rows = 1, length = 8192 },
  { name = "step.gpt2_124m.f32.t1024", model = gpt2, rows = 1, length = 1024 },
  { name = "step.gpt2_124m.f32.t4096", model = gpt2, rows = 1, length = 4096 },
}
for i = 1, #cases do -- the same in bf16
  local case, name = cases[i], cases[i].name:gsub("f32", "bf16")
  cases[#cases + 1] = { name = name, model = case.model, rows = case.rows, length = case.length }
end

local options = { rounds = 5, clock = "wall", threads = ffi.C.lt_cpu_threads() }
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match "^%-%-(.*)"
    if name == "quick" then
      options.quick, options.rounds = true, 1
    elseif name == "items" then
      options.items = true
    elseif name then
      i = i + 1
      options[name] = arg[i]
    else
      options.pattern = arg[i]
    end
    i = i + 1
  end
end
local threads = tonumber(options.threads)
ffi.C.lt_cpu_set_threads(threads)

-- A glob as a Lua pattern, matched anywhere.
local function wanted(name)
  local glob = options.pattern or ""
  return name:find((glob:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", ".*"))) ~= nil
end

local function now() return peaks.peak_clock(options.clock == "cpu" and 1 or 0, threads) end

local function rate_of(loop)
  local turns = 20000
  while true do
    local start = now()
    local done = loop(turns)
    local took = now() - start
    if done == 0 or took >= (options.quick and 1e-4 or 0.02) then return done / took end
    turns = turns * 4
  end
end

local function fma_rate() return rate_of(peaks.peak_fma_f32) end

local function triad_rate()
  local n = options.quick and 2 ^ 16 or 2 ^ 23
  local a, b, c = ffi.new("float[?]", n), ffi.new("float[?]", n), ffi.new("float[?]", n)
  local best = 0
  for _ = 1, 4 do -- the first one meets new pages
    local start = now()
    best = math.max(best, peaks.peak_triad(a, b, c, n) / (now() - start))
  end
  return best
end

local function median(t)
  table.sort(t)
  return (t[math.ceil(#t / 2)] + t[math.floor(#t / 2) + 1]) / 2
end

-- Operations of a step: 2 for each multiply of forward, twice that backward; attention 14 d a visible pair (causal).
local function operations(m, rows, length)
  local dim = m.width / m.heads
  local kv = (m.kv_heads or m.heads) * dim
  local layer = 2 * m.width * m.width + 2 * m.width * kv + 3 * m.width * m.ffn.hidden
  local products = 6 * (m.layers * layer + m.width * m.vocab)
  return rows * length * (products + m.layers * 14 * m.width * (length + 1) / 2)
end

local function text(rows, length, vocab, step)
  local tokens, labels, at = {}, {}, step * 7919
  for row = 1, rows do
    tokens[row], labels[row] = {}, {}
    for i = 1, length do
      at = (at * 1103515245 + 12345) % 2147483648
      tokens[row][i] = math.floor(at / 65536) % vocab
      labels[row][i] = (math.floor(at / 65536) * 3 + 1) % vocab
    end
  end
  return lt.data.tensors { tokens = tokens, labels = labels, vocab = vocab, step = step }
end

-- What each kind of operation took in a step of the last rounds, the longest first; what it moves at least, and what is
-- left of that without operands that an operation before it had read, or written: of all of them, the least of a step.
local function print_items(program, steps, dtype)
  local dot = dtype == "bf16" and rate_of(peaks.peak_dot_bf16) or 0
  local flops, triad = dot > 0 and dot or fma_rate(), triad_rate()
  local kinds, list, items, whole = {}, {}, program:times()
  for _, item in ipairs(items) do
    local kind = kinds[item.op] or { op = item.op, n = 0, seconds = 0, flops = 0, bytes = 0, once = 0 }
    if not kinds[item.op] then kinds[item.op], list[#list + 1] = kind, kind end
    kind.n, kind.seconds = kind.n + 1, kind.seconds + item.seconds / steps
    kind.flops, kind.bytes, kind.once = kind.flops + item.flops, kind.bytes + item.bytes, kind.once + item.once
  end
  table.sort(list, function(a, b) return a.seconds > b.seconds end)
  local all = { seconds = 0, bytes = 0, once = 0 }
  local function line(op, n, k, ...)
    print(string.format("  %-24s %6d %10.2f %8.3f %8.3f %8.3f", op, n, k.seconds * 1e3, k.seconds * steps / whole,
      k.bytes / 1e9, k.once / 1e9) .. string.format((" %8.3f"):rep(select("#", ...)), ...))
  end
  print(string.format("  %-24s %6s %10s %8s %8s %8s %8s %8s", "operation", "items", "ms", "of step", "GB", "GB once",
    dot > 0 and "of dot" or "of fma", "of triad"))
  for _, k in ipairs(list) do
    for key, sum in pairs(all) do all[key] = sum + k[key] end
    line(k.op, k.n, k, k.flops / k.seconds / flops, k.bytes / k.seconds / triad)
  end
  line("all", #items, all)
end

local function measure(case)
  local given, dtype = {}, case.name:match "%.(b?f%d+)%."
  for key, value in pairs(case.model) do given[key] = value end
  given.ffn = lt.nn.swiglu(case.model.ffn)
  local rows, length = case.rows, case.length
  if options.quick then
    given.vocab, given.layers, length = 64, 1, 32
  end
  local model = lt.check(lt.nn.decoder(given), "model")
  local update = lt.check(lt.optim.adamw { lr = 1e-4 }, "optim")
  local program = lt.program {
    dtype = dtype, tokens = rows * length, sequences = rows, length = length,
    build = function(ctx)
      lt.nn.build(ctx, model)
      lt.optim.build(ctx, update)
    end,
  }
  local speeds, shares, work = {}, {}, operations(given, rows, length)
  for round = 0, options.rounds do -- the first one warms up
    local tokens = text(rows, length, given.vocab, round)
    program:control("optim_t", round + 1)
    local before = fma_rate()
    local start = now()
    program:step(tokens)
    local took = now() - start
    local peak = (before + fma_rate()) / 2
    if round == 0 and not options.quick then program:times() end
    if round > 0 or options.quick then
      speeds[#speeds + 1], shares[#shares + 1] = rows * length / took, work / took / peak
    end
  end
  local shape = string.format("layers=%d width=%d vocab=%d %dx%d", given.layers, given.width, given.vocab, rows, length)
  local speed, share = median(speeds), median(shares)
  print(string.format("%-38s %-44s %10.4g %-9s %8.3f %8s %8s %8s", case.name, shape, speed, "tokens/s", share, "-", "-",
    "-"))
  if options.items then print_items(program, #speeds, dtype) end
  program:close()
  if options.json then
    local f = assert(io.open(options.json, "a"))
    f:write(string.format('{"name": "%s", "shape": "%s", "dtype": "%s", "threads": %d, "value": %.6g, '
      .. '"unit": "tokens/s", "share_of_fma": %.4g, "share_of_dot": null, "share_of_amx": null, '
      .. '"share_of_triad": null}\n',
      case.name, shape, dtype, threads, speed, share))
    f:close()
  end
end

for _, case in ipairs(cases) do
  if wanted(case.name) then measure(case) end
end
