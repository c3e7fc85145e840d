-- small.lua: the first lesson: a small decoder learns the bytes of C headers and licences, on a laptop, in minutes.
-- Run it with `ltrain-lua recipes/small.lua`; larger: `ltrain-lua recipes/small.lua width=256 layers=6`.
-- A recipe is a Lua program that returns one table: what to read, what to build, how to learn. It touches nothing else.
local width = lt.arg("width", 128, "width of the residual stream")
local layers = lt.arg("layers", 3, "decoder layers")

return {
  -- Everything random (first weights, the order of the texts) follows from this number and from nothing else: the same
  -- recipe on the same machine gives the same losses to the last bit, also when it was killed and resumed in between.
  seed = 1,

  data = {
    -- A token is a byte, a document is a file. These are there on every machine that can build this program.
    train = { "/usr/include/*.h", "/usr/include/linux/**/*.h", "/usr/share/common-licenses/*" },
    -- One document in twenty is never learned from: the held-out loss is measured on those.
    hold_out = 0.05,
    -- Texts are cut into sequences of so many tokens; a token sees those before it in its sequence.
    length = 256,
    -- Shuffle such parts of documents rather than whole ones. A step reads few tokens here: without this they would be
    -- a part of a single file, and the model would learn file after file and forget the ones before.
    stretch = 256,
  },

  -- Four query heads share two heads of keys and values. The feed-forward layer is SwiGLU unless another one is named:
  -- own_layer.lua writes its own.
  model = lt.nn.decoder { vocab = 256, width = width, layers = layers, heads = 4, kv_heads = 2 },

  -- AdamW on gradients clipped to norm 1. The rate climbs for 50 steps and follows half a cosine down to a tenth.
  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 2e-3, warmup = 50 }, clip = 1 },

  -- 2048 tokens are 8 sequences. More ranks (--ranks 2) share them out and come to the same losses.
  train = { tokens = 2048, steps = 1500, eval_every = 100, eval_tokens = 65536 },

  -- Ctrl-C saves too; `--resume` goes on from the newest save.
  save = { every = 250, keep = 2 },
}
