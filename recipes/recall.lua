-- recall.lua: a lesson: the end of a text, on rank 1, asks for what its first half said, on rank 0: is it known there?
-- The texts: `ltrain-lua --script recipes/recall/make.lua recipes/recall/text.jsonl`, the run: `mpirun -np 2 ltrain-lua
-- recipes/recall.lua --run runs/recall`, the proof: `ltrain-lua --eval recipes/recall.lua --run runs/recall`.
local text = lt.arg("text", "recall/text.jsonl", "what recall/make.lua wrote")
local cut = lt.arg("cut", false, "keep the first half out of sight of the second")

-- A document is 2048 bytes: 1024 say over and over which of 36 characters belongs to each of 16 letters, 992 are dots,
-- 32 ask for every letter once. --eval tells the loss by position, on tables that were never learned from: in its line
-- 1024 ... 2047 everything can be known but these 16 characters, and where the dots end. Guessed, the 16 cost
-- 16 ln 36 / 1024 = 0.056 nats a byte, and no model that has not seen the table does better; recalled, nothing.
-- Measured on two cores (Zen 4), two ranks of one thread: 0.009 after 300 steps, 2.5 million tokens, half a minute.
-- With cut=true the second layer looks back 256 tokens: both layers together reach into the dots and no further. All
-- else is the same, recall of what is near is learned as well, and that line stays at 0.065.
return {
  seed = 1,
  data = {
    train = text, hold_out = 0.04,
    -- First pieces of 256 bytes, about four letters each: attention that is still spread over all of them meets the
    -- right one often enough to learn from it, in about 100 steps. Then whole documents, where the same is done among
    -- 16. Whole ones from the start taught nothing but guessing in 300 steps.
    length = { { 0, 256 }, { 200, 2048 } },
  },
  -- Recall takes two steps (induction heads: Olsson et al. 2022). The first layer hands every character the letter in
  -- front of it; the second finds the character that was handed the letter asked for. With a window of 2 the first has
  -- nothing else to find; where it saw everything, 300 steps did not suffice. Positions have nothing to say here, so
  -- there are none; with them it is learned as fast.
  model = lt.nn.decoder {
    width = 64, layers = 2, heads = 2, std = 0.1,
    attention = { window = { 2, cut and 256 }, rope = false },
    ffn = lt.nn.swiglu { hidden = 128 },
  },
  -- Many tables a step: with few, what is accidental in them hides what they have in common.
  optim = lt.optim.adamw { lr = lt.lr.wsd { peak = 3e-3, warmup = 20 }, weight_decay = 0 },
  train = { tokens = 8192, steps = 300, eval_every = 100, eval_tokens = 131072 },
  -- Contiguous: rank 0 holds the first half of every sequence, rank 1 the second. Of a document the first layer sends a
  -- row of keys and values over the border, the second 1024; cut, 255.
  layout = { mesh = { sp = "auto" }, partition = "contiguous", exchange = "ring" },
  save = { every = 100, keep = 1 },
}
