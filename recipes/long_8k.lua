-- long_8k.lua: a lesson: the first step to longer texts. The same run reads 2048 tokens at a time, and later 8192.
-- Memory a rank, as --check plans it: on one rank 78 MiB at 2048 tokens and 276 MiB at 8192; on two that share each
-- sequence 49 and 152 MiB. Four times the sequence is four times what its tokens keep; weights and moments stay.
-- Measured on two cores (Zen 4), one rank of two threads or two ranks of one: 13 k tokens/s at 2048, 4.9 k at 8192.
local at = lt.arg("at", 300, "step from which sequences are long")
local long = lt.arg("long", 8192, "tokens of a long sequence")

return {
  seed = 1,
  data = {
    train = { "/usr/include/*.h", "/usr/include/linux/**/*.h" },
    hold_out = 0.05,
    -- Each length has a plan and an arena of its own; weights, moments and the place in the text go on. Short sequences
    -- teach most of what there is to learn for less: attention costs a token half of what it may look back to.
    length = { { 0, 2048 }, { at, long } },
  },
  -- Rotary positions turn by base^(-2i/head_dim) a token. The slowest turn of base 10000 has come round after 63 k
  -- tokens; a larger base, from the first step on, leaves far positions apart, and nothing has to be stretched later.
  model = lt.nn.decoder {
    width = 128, layers = 4, heads = 4, kv_heads = 2,
    attention = { rope = { base = 500000 } },
  },
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 2e-3, warmup = 50 }, clip = 1 },
  -- Each sequence on all ranks: what a rank holds is cut, not only how many sequences it reads.
  layout = { mesh = { sp = "auto" }, exchange = "ring" },
  -- 16384 tokens a step at either length, so the rate fits both; one sequence at a time.
  train = { tokens = 16384, micro_batch = 1, steps = 400, eval_every = 100, eval_tokens = 65536, eval_length = long },
  save = { every = 100, keep = 2 },
}
