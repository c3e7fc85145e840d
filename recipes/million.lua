-- million.lua: a lesson: one text of 1048576 tokens in one step, on a machine with two cores. Three layers look back
-- 1024 tokens, the last one to the start. A text that long: `find /usr/include -name '*.h' -exec cat {} + > long.txt`
-- Look first: `ltrain-lua --check --ranks 2 recipes/million.lua`
-- Then: `mpirun -np 2 ltrain-lua recipes/million.lua text=$PWD/long.txt`; n=131072 is the same on an eighth of it.
-- Planned: 7.33 GiB on one rank, 3.86 GiB on each of two. All but a hundredth of the time is the full layer.
-- Measured on two cores (Zen 4), two ranks of one thread: n=131072 14 s, n=262144 53 s: four times as long; the million
-- 13 minutes of each core and 3.9 GiB a rank. With head_dim=64 n=131072 takes 26 s: 28 minutes for the million.
local n = lt.arg("n", 1048576, "tokens of the text")

return {
  seed = 1, dtype = "bf16",
  -- Without a text of your own: headers laid end to end, where the full layer has little to do.
  data = { train = lt.arg("text", "/usr/include/linux/**/*.h", "a long text"), length = n, look_ahead = 0 },
  -- The full layer is half of n squared pairs of a query and a key: 5.5e11, hundreds of times the windows' work. What a
  -- pair costs grows with the width of a head, not with that of the stream: one head, narrower than the stream.
  model = lt.nn.decoder {
    width = 64, layers = 4, heads = 1, head_dim = lt.arg("head_dim", 16, "width of the head"),
    attention = { window = { 1024, 1024, 1024, false }, rope = { base = 5e7 } },
    ffn = lt.nn.swiglu { hidden = 128 },
  },
  optim = lt.optim.adamw { lr = 1e-3 },
  layout = { mesh = { sp = "auto" }, partition = "balanced", exchange = "direct" },
  train = { tokens = n, steps = 1, eval_every = 0 },
  save = { every = 0 },
}
