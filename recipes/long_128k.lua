-- long_128k.lua: a lesson: 131072 tokens in one sequence, over ranks. Most layers look back 1024 tokens, one to the
-- start. Look first: `ltrain-lua --check --ranks 2 recipes/long_128k.lua`;
-- then `mpirun -np 2 ltrain-lua recipes/long_128k.lua`. Planned: 1.96 GiB on one rank (four layers compute part of
-- themselves again), 1.81 GiB on each of two (nothing is), 960 MiB on each of four.
-- A step takes 26 s of each of two cores (Zen 4): 5 000 tokens a second.
local n = lt.arg("n", 131072, "tokens of a sequence")

return {
  seed = 1, dtype = "bf16",
  -- Headers of all sizes, laid end to end: a token sees its own document only: most keys are near, a few very far.
  data = { train = lt.arg("text", "/usr/include/linux/**/*.h", "files"), length = n },
  -- A window costs n times its width, a full layer half of n squared: at 131072 the one full layer can ask for as much
  -- as 64 windowed ones. Documents shorter than n make it cheaper.
  model = lt.nn.decoder {
    width = 128, layers = 6, heads = 4, kv_heads = 2,
    attention = { window = { 1024, 1024, 1024, false, 1024, 1024 }, rope = { base = 5e6 } },
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-3, warmup = 20 }, clip = 1, shard = 1 },
  layout = {
    mesh = { sp = "auto" },
    -- Equal work for every rank by the documents of the step at hand, and few keys to move;
    partition = "balanced",
    -- and of these only what some query sees, from the rank that has them: borders of windows and of documents.
    exchange = "direct",
  },
  -- All that the backward pass reads is 3.4 GiB on one rank. Under a budget some layers make part of it again: which,
  -- and what that costs, --check says. On more ranks less is held by each, and nothing is made twice.
  checkpoint = { budget = "2 GiB" },
  train = { tokens = n, steps = 200, eval_every = 0 },
  save = { every = 20, keep = 2 },
}
