-- lt.lua: stubs for editors (LuaLS): written by lua/reference.lua from the schema, not by hand.
-- Point the editor's Lua.workspace.library at this folder; `---@type lt.recipe` before a table has its keys
-- checked.
---@meta

lt = { op = {} }
lt.policy = {}
lt.nn = {}
lt.lr = {}
lt.optim = {}

---A step policy of your own, under a name.
---@class lt.policy.step
---@field name string What saves and messages call it.
---@field step function What is asked: function(stats, state) that returns controls and its state.
---@param fields lt.policy.step
---@return lt.policy.step
function lt.policy.step(fields) end

---Lowers a control when the held-out loss no longer falls.
---@class lt.policy.plateau
---@field name? string What saves and messages call it. Default: "plateau".
---@field control? string The control. Default: "lr.factor".
---@field factor? number What it is multiplied with. Default: 0.5.
---@field patience? integer Evaluations in a row without a better loss, before it is. Default: 2.
---@field margin? number What counts as better. Default: 0.
---@field floor? number The least it is set to. Default: 0.01.
---@param fields lt.policy.plateau
---@return lt.policy.plateau
function lt.policy.plateau(fields) end

---Lets hops of an exchange start further ahead while steps wait for transfers, and less far when they do not, up to layout.max_depth: with that at 1 it has nothing to move.
---@class lt.policy.hide
---@field share? number Share of a step's time that may be spent waiting for transfers. Default: 0.01.
---@field calm? integer Steps in a row with less than a quarter of that, before a hop fewer is tried. Default: 20.
---@param fields lt.policy.hide
---@return lt.policy.hide
function lt.policy.hide(fields) end

---A gated feed-forward layer: down(silu(gate(x)) · up(x)).
---@class lt.nn.swiglu
---@field hidden? integer Width inside. Default: 8/3 widths, to a multiple of 16.
---@param fields lt.nn.swiglu
---@return lt.nn.swiglu
function lt.nn.swiglu(fields) end

---A plain feed-forward layer with biases: down(gelu(up(x))).
---@class lt.nn.gelu
---@field hidden? integer Width inside. Default: 4 widths, to a multiple of 16.
---@param fields lt.nn.gelu
---@return lt.nn.gelu
function lt.nn.gelu(fields) end

---Rotary positions; false: none.
---@class lt.nn.decoder.rope
---@field base? number Base of the frequencies. Default: 10000.
---@field scaling? "none"|"linear"|"ntk"|"yarn" How positions beyond the length of the first training are brought back into it. Default: "none".
---@field factor? number How many times longer texts are than that length. Default: 1.
---@field original_length? number The length of the first training, which YaRN asks for. Default: 2048.

---What is seen, and where it is.
---@class lt.nn.decoder.attention
---@field window? false|integer|false|integer|(false|integer)[] Keys a query sees, itself among them; false: all before it. A list has one for each layer. Default: false.
---@field rope? false|lt.nn.decoder.rope Rotary positions; false: none. Default: {}.
---@field block? integer Queries and keys a block of the kernel. Default: 128.

---A decoder: layers of attention and feed-forward on a residual stream, and the loss of the next token.
---@class lt.nn.decoder
---@field vocab? integer Tokens there are; text is bytes, of which there are 256. Default: 256.
---@field width integer Width of the residual stream.
---@field layers integer Layers.
---@field heads integer Query heads of a layer.
---@field kv_heads? integer Key and value heads of a layer; they must divide heads. Default: heads.
---@field head_dim? integer Width of a head; even, if there are rotary positions. Default: width / heads.
---@field attention? lt.nn.decoder.attention What is seen, and where it is. Default: {}.
---@field ffn? lt.nn.swiglu|lt.nn.gelu|function The feed-forward layer: a built-in one, or function(x, ctx) that returns a value of x's shape. Default: lt.nn.swiglu {}.
---@field norm? "rmsnorm"|"layernorm" The norm of every layer. Default: "rmsnorm".
---@field eps? number Added to the variance in the norms. Default: 1e-05.
---@field dropout? number Share of what is added to the residual stream that is left out, in training. Default: 0.
---@field tied? boolean The output matrix is the embedding. Default: false.
---@field std? number Deviation of the initial weights. Default: 0.02.
---@field chunk? integer Rows of logits that exist at once in the loss. Default: 256.
---@field outputs? "logits"|"logits"[] What else is computed, for scripts to read. Default: {}.
---@param fields lt.nn.decoder
---@return lt.nn.decoder
function lt.nn.decoder(fields) end

---The peak, once it is reached.
---@class lt.lr.constant
---@field peak number The largest rate.
---@field warmup? integer Steps in which the rate climbs to the peak. Default: 0.
---@param fields lt.lr.constant
---@return lt.lr.constant
function lt.lr.constant(fields) end

---Half a cosine from the peak to its floor.
---@class lt.lr.cosine
---@field peak number The largest rate.
---@field warmup? integer Steps in which the rate climbs to the peak. Default: 0.
---@field floor? number The last rate, as a share of the peak. Default: 0.1.
---@field steps? integer Length of the curve. Default: train.steps.
---@param fields lt.lr.cosine
---@return lt.lr.cosine
function lt.lr.cosine(fields) end

---Warm up, stay, descend on a straight line.
---@class lt.lr.wsd
---@field peak number The largest rate.
---@field warmup? integer Steps in which the rate climbs to the peak. Default: 0.
---@field floor? number The last rate, as a share of the peak. Default: 0.1.
---@field steps? integer Length of the curve. Default: train.steps.
---@field decay? integer Steps of the final descent. Default: a fifth of steps.
---@param fields lt.lr.wsd
---@return lt.lr.wsd
function lt.lr.wsd(fields) end

---AdamW, after clipping by the global norm.
---@class lt.optim.adamw
---@field lr number|lt.lr.constant|lt.lr.cosine|lt.lr.wsd|function The learning rate: a number, a curve, or function(step) that returns it; steps count from 0.
---@field beta1? number Decay of the mean of gradients. Default: 0.9.
---@field beta2? number Decay of the mean of their squares. Default: 0.95.
---@field eps? number Added to the root of the second mean. Default: 1e-08.
---@field weight_decay? number Share of a matrix that an update takes away, times the learning rate. Default: 0.1.
---@field clip? number Largest norm of all gradients together; 0: any. Default: 1.
---@field shard? integer What the ranks of dp and sp share out: 1 moments, 2 gradients too, 3 parameters too. Default: 0.
---@param fields lt.optim.adamw
---@return lt.optim.adamw
function lt.optim.adamw(fields) end

---The texts.
---@class lt.recipe.data
---@field train string|string[] Patterns of the files to learn from: `*`, `?`, `[…]`, and `**` for any folders; from the recipe's folder.
---@field eval? string|string[] Patterns of held-out files; not together with hold_out.
---@field hold_out? number Share of the training documents held out, drawn document by document: of few it may be far from it. Default: 0.
---@field stretch? integer Tokens of a document that are shuffled as one; 0: whole documents. Default: 0.
---@field length? integer|[integer, integer]|[integer, integer][] Tokens a sequence; or a list of { first step, length }, ascending from step 0. Default: 512.
---@field look_ahead? integer Steps whose text is read while another runs; 0: read when it is needed. Default: 2.

---The run.
---@class lt.recipe.train
---@field tokens? integer Tokens a step, over all ranks. Default: 8192.
---@field steps? integer Length of the run. Default: 1000.
---@field micro_batch? integer|"auto"|function Sequences a rank works on at once; "auto": as many as the plan finds best; or function(facts) that says. Default: "auto".
---@field bad_steps? integer Steps in a row whose loss or gradient is not finite, after which the run saves and ends. Default: 10.
---@field trace? integer The step whose kernels and transfers are written to trace.json in the run's folder; 0: none. Default: 0.
---@field eval_every? integer Steps between evaluations; 0: only at the end. Default: 100.
---@field eval_tokens? integer Held-out tokens an evaluation reads at most. Default: 65536.
---@field eval_length? integer Tokens a sequence of an evaluation, the same at every step. Default: the longest of data.length.

---Ranks along each axis; "auto" takes what the others leave; where none is "auto", dp does.
---@class lt.recipe.mesh
---@field pp? integer|"auto" Pipeline: ranks that hold different layers. Not there yet: 1. Default: 1.
---@field dp? integer|"auto" Data: ranks that read different sequences. Default: what the others leave.
---@field sp? integer|"auto" Sequence: ranks that share each sequence. Default: 1.
---@field tp? integer|"auto" Tensor: ranks that share each weight. Default: 1.
---@field ep? integer Experts: ranks that hold different ones, over parts of dp and sp. Not there yet: 1. Default: 1.

---How fast ranks reach each other.
---@class lt.recipe.links
---@field inside? integer|string Bytes a second from a rank to others of its machine. Default: 5000000000.
---@field between? integer|string Bytes a second from a machine to others; its ranks share them. Default: 1250000000.

---What is near: ranks fill machine after machine. It decides predicted times, never results.
---@class lt.recipe.machine
---@field nodes? integer Machines there are. Default: as many as the ranks need.
---@field per_node? integer Ranks on each machine. Default: all, shared out over nodes.
---@field links? lt.recipe.links How fast ranks reach each other. Default: {}.

---Parameters by patterns of their names, over what layers and optimizer say: "replicated" on tp, or { tp = dimension, shard = level }.
---@class lt.recipe.placement
---@field tp? integer|"out"|"in"|false The dimension that tp cuts; false: none. Default: as its layer says.
---@field shard? integer What dp and sp share out of it: 1 moments, 2 gradients too, 3 the parameter as well. Default: optim.shard.

---How it is spread over ranks.
---@class lt.recipe.layout
---@field mesh? lt.recipe.mesh Ranks along each axis; "auto" takes what the others leave; where none is "auto", dp does. Default: {}.
---@field order? "pp"|"dp"|"sp"|"tp"|("pp"|"dp"|"sp"|"tp")[] Axes, the one whose ranks are nearest first; what is not named follows as tp, sp, dp, pp. Default: {}.
---@field machine? lt.recipe.machine What is near: ranks fill machine after machine. It decides predicted times, never results. Default: {}.
---@field partition? "contiguous"|"zigzag"|"striped"|"balanced"|"weighted"|function How the blocks of a sequence are dealt over sp: "balanced": equal work, few keys moved; "weighted": work by layout.weights; or function(sequence) that returns the rank of every block, from 0. Default: "balanced".
---@field weights? integer|integer[]|"measured" How fast each rank of sp is beside the others, for "weighted"; "measured": timed before the first step, then kept in saves. Default: {}.
---@field max_share? number Most that a rank of sp holds of a sequence, as a multiple of a fair share, in whole blocks; memory is planned by it. Default: 1.05.
---@field block? integer Tokens a block that sequence parallelism deals. Default: 128, less for under 1024 tokens a rank.
---@field exchange? "auto"|"all_gather"|"ring"|"direct"|"two_level"|"ulysses"|"two_level_ulysses"|"auto"|"all_gather"|"ring"|"direct"|"two_level"|"ulysses"|"two_level_ulysses"|("auto"|"all_gather"|"ring"|"direct"|"two_level"|"ulysses"|"two_level_ulysses")[] How queries meet the keys that other ranks hold: "all_gather": every rank gets all keys; "ring": they pass from rank to rank; "direct": from their owners; "two_level": rings of layout.inner ranks; "ulysses": every rank gets all rows of some heads; "two_level_ulysses": that among layout.inner ranks; "auto": the plan's choice. A list has one for each layer. Default: "auto".
---@field inner? integer|"auto" Ranks of sp near each other, for exchanges of two levels; it must divide sp. "auto": those of a machine, as layout.machine says, or the largest divisor that is not above the square root of sp. Default: "auto" where an exchange has two levels, else none.
---@field max_depth? integer Hops of an exchange that may be under way at once; memory is planned for them. Default: 1.
---@field depth? integer Hops that are under way at once when a run starts. Default: layout.max_depth.
---@field place? table<string, "replicated"|lt.recipe.placement> Parameters by patterns of their names, over what layers and optimizer say: "replicated" on tp, or { tp = dimension, shard = level }. Default: {}.

---What is computed again in the backward pass instead of kept: a mode, or a table of these.
---@class lt.recipe.checkpoint
---@field mode? "none"|"cheap"|"attention"|"layers"|"auto" What layers compute again: "none"; "cheap": what element-wise operations made; "attention": all but what attention made; "layers": all but what enters them; "auto": for each layer one of these, chosen so that the step fits the budget in the least predicted time. Default: "auto" with a budget, "layers" with layers, else "none".
---@field layers? integer|function How many layers do so, the first ones; or function(facts) that says. Default: what the budget needs, else all.
---@field keep? string|string[] Patterns of scopes inside layers, as "layer */attention", whose results are kept in any case. Default: {}.
---@field drop? string|string[] Patterns of scopes inside layers whose results are computed again in any case. Default: {}.
---@field budget? integer|string Memory a rank may use; 0: any. Default: 0.

---Saves of the run.
---@class lt.recipe.save
---@field every? integer Steps between saves; 0: only at the end. Default: 200.
---@field keep? integer Newest saves that are kept. Default: 3.

---What computes.
---@class lt.recipe.device
---@field isa? "auto"|"portable"|"avx2"|"avx512"|"avx512_bf16"|"amx" Whose kernels; "auto": what LTRAIN_ISA names, else the best this processor runs. Default: "auto".

---What a recipe returns.
---@class lt.recipe
---@field seed? integer What everything random follows from. Default: 0.
---@field dtype? "f32"|"f64"|"bf16" What is computed in. Default: "f32".
---@field data lt.recipe.data The texts.
---@field model lt.nn.decoder|function A model, or function(ctx) that returns its loss.
---@field optim lt.optim.adamw The optimizer.
---@field train? lt.recipe.train The run. Default: {}.
---@field layout? lt.recipe.layout How it is spread over ranks. Default: {}.
---@field checkpoint? "none"|"cheap"|"attention"|"layers"|"auto"|lt.recipe.checkpoint What is computed again in the backward pass instead of kept: a mode, or a table of these. Default: {}.
---@field save? lt.recipe.save Saves of the run. Default: {}.
---@field device? lt.recipe.device What computes. Default: {}.
---@field on_step? function|lt.policy.step|lt.policy.plateau|function|lt.policy.step|lt.policy.plateau|(function|lt.policy.step|lt.policy.plateau)[] Step policies: function(stats, state) that returns controls and its state, or a list of them.
---@field on_speed? function|lt.policy.hide A policy that sees times: function(times, state) that returns speed controls and its state.

---@class lt.context.linear
---@field bias? boolean
---@field init? number|string|table
---@field tp? "out"|"in"|false
---@field granule? integer
---@field residual? boolean The product is added to the residual stream.

---What a layer or a model of your own is written with.
---@class lt.context
---@field training boolean
local ctx = {}
---A parameter; an extent may be { number, granule }.
---@param name string
---@param dims (integer|integer[])[]
---@param options? { init?: number|string|table, tp?: "out"|"in"|integer, decay?: boolean, trainable?: boolean }
---@return lt.value
function ctx:param(name, dims, options) end
---A state that is no parameter.
---@param name string
---@param dims (integer|integer[])[]
---@param options? { init?: number|string|table }
---@return lt.value
function ctx:buffer(name, dims, options) end
---x times the transpose of NAME.weight, [out, in].
---@param name string
---@param x lt.value
---@param out integer
---@param options? lt.context.linear
---@return lt.value
function ctx:linear(name, x, out, options) end
---@param name string
---@param x lt.value
---@param options? { kind?: "rmsnorm"|"layernorm", eps?: number }
---@return lt.value
function ctx:norm(name, x, options) end
---@param x lt.value
---@param p number
---@return lt.value
function ctx:dropout(x, p) end
---A column of the step table.
---@param name "token"|"label"|"document"|"position"|"ordinal"|"weight"|"loss_scale"
---@return lt.value
function ctx:feed(name) end
---@param name string
---@param value lt.value
function ctx:output(name, value) end
---The mean loss of the step's labels.
---@param x lt.value
---@param w lt.value
---@param options? { chunk?: integer }
---@return lt.value
function ctx:cross_entropy(x, w, options) end
---@param name string
---@param fn function
function ctx:scope(name, fn, ...) end

---A symbolic value of the graph.
---@class lt.value
---@field shape (integer|string)[]
---@field dtype string
---@field width integer
---@operator add(lt.value|number): lt.value
---@operator sub(lt.value|number): lt.value
---@operator mul(lt.value|number): lt.value
---@operator div(lt.value|number): lt.value
---@operator unm: lt.value

---What the command line may say, name=value; it becomes what the default is.
---@generic T: number|string|boolean
---@param name string
---@param default T
---@param meaning? string
---@return T
function lt.arg(name, default, meaning) end

---Random numbers that are the same on every rank.
---@class lt.random
local random = {}
---@return number
function random:uniform(low, high) end
---@return number
function random:normal(mean, deviation) end
---@return integer
function random:int(low, high) end
---@param seed integer
---@param stream? string
---@return lt.random
function lt.random(seed, stream) end

---y = op(a) op(b): matrix product of [m, k] and [k, n], or of [batch, m, k] and [batch, k, n]
---@param a lt.value
---@param b lt.value
---@param attributes? { trans_a?: boolean, trans_b?: boolean }
---@return lt.value ...
function lt.op.matmul(a, b, attributes) end

---y = a + b
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.add(a, b) end

---y = a - b
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.sub(a, b) end

---y = a * b
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.mul(a, b) end

---y = a / b
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.div(a, b) end

---y = the larger of a and b; of equal ones b has the gradient
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.maximum(a, b) end

---y = the smaller of a and b; of equal ones b has the gradient
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.minimum(a, b) end

---y = 1 where a > b, else 0; no gradient flows back
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.greater(a, b) end

---y = 1 where a = b, else 0; no gradient flows back
---@param a lt.value
---@param b lt.value
---@return lt.value ...
function lt.op.equal(a, b) end

---y = -x
---@param x lt.value
---@return lt.value ...
function lt.op.neg(x) end

---y = |x|
---@param x lt.value
---@return lt.value ...
function lt.op.abs(x) end

---y = x^2
---@param x lt.value
---@return lt.value ...
function lt.op.square(x) end

---y = the square root of x
---@param x lt.value
---@return lt.value ...
function lt.op.sqrt(x) end

---y = 1 / the square root of x
---@param x lt.value
---@return lt.value ...
function lt.op.rsqrt(x) end

---y = 1 / x
---@param x lt.value
---@return lt.value ...
function lt.op.reciprocal(x) end

---y = e^x
---@param x lt.value
---@return lt.value ...
function lt.op.exp(x) end

---y = the natural logarithm of x
---@param x lt.value
---@return lt.value ...
function lt.op.log(x) end

---y = tanh(x)
---@param x lt.value
---@return lt.value ...
function lt.op.tanh(x) end

---y = 1 / (1 + e^-x)
---@param x lt.value
---@return lt.value ...
function lt.op.sigmoid(x) end

---y = x / (1 + e^-x)
---@param x lt.value
---@return lt.value ...
function lt.op.silu(x) end

---y = the larger of x and 0; the gradient at 0 is 0
---@param x lt.value
---@return lt.value ...
function lt.op.relu(x) end

---y = -1, 0 or 1; no gradient flows back
---@param x lt.value
---@return lt.value ...
function lt.op.sign(x) end

---y = alpha x + beta
---@param x lt.value
---@param attributes? { alpha?: number, beta?: number }
---@return lt.value ...
function lt.op.scale(x, attributes) end

---y = x in another type
---@param x lt.value
---@param attributes? { dtype?: string }
---@return lt.value ...
function lt.op.cast(x, attributes) end

---y = a number everywhere
---@param attributes? { value: number, tokens?: boolean, d0?: integer, d1?: integer, d2?: integer, d3?: integer }
---@return lt.value ...
function lt.op.fill(attributes) end

---y = x1 + x2 + …: the sum of up to 64 values of one shape
---@param ... lt.value
---@return lt.value ...
function lt.op.add_n(...) end

---y = the sum of x over a dimension, or over all
---@param x lt.value
---@param attributes? { dim?: integer, keep?: boolean }
---@return lt.value ...
function lt.op.sum(x, attributes) end

---y = the largest of x over a dimension, or over all; equal ones share the gradient
---@param x lt.value
---@param attributes? { dim?: integer, keep?: boolean }
---@return lt.value ...
function lt.op.max(x, attributes) end

---y = the mean of x over a static dimension, or over all
---@param x lt.value
---@param attributes? { dim?: integer, keep?: boolean }
---@return lt.value ...
function lt.op.mean(x, attributes) end

---y = x with its dimension `dim`, of one element, repeated `count` times
---@param x lt.value
---@param attributes? { dim: integer, count: integer }
---@return lt.value ...
function lt.op.expand(x, attributes) end

---y = x with dimension `dim` of n elements as two, n / inner and inner
---@param x lt.value
---@param attributes? { dim: integer, inner: integer }
---@return lt.value ...
function lt.op.split_dim(x, attributes) end

---y = x with dimension `dim` and the one behind it as one
---@param x lt.value
---@param attributes? { dim: integer }
---@return lt.value ...
function lt.op.merge_dims(x, attributes) end

---y = x with its dimensions in another order: permute(x, { d0 = 1, d1 = 0 }) transposes
---@param x lt.value
---@param attributes? { d0: integer, d1?: integer, d2?: integer, d3?: integer }
---@return lt.value ...
function lt.op.permute(x, attributes) end

---y = x1, x2, … one after another along a static dimension; up to 64
---@param ... lt.value
---@return lt.value ...
function lt.op.concat(...) end

---y = `count` elements of x along a static dimension, from `first`
---@param x lt.value
---@param attributes? { dim: integer, first?: integer, count: integer }
---@return lt.value ...
function lt.op.slice(x, attributes) end

---y = x with zeros before and after it along a static dimension
---@param x lt.value
---@param attributes? { dim: integer, before?: integer, after?: integer }
---@return lt.value ...
function lt.op.pad(x, attributes) end

---y = table[ids]: ids i32 [rows …], table [vocab, width]; an id outside the table gives a zero row
---@param ids lt.value
---@param table lt.value
---@return lt.value ...
function lt.op.embedding(ids, table) end

---y, rstd = x * rstd * weight, with rstd = 1/sqrt(mean(x^2) + eps) over the last dimension
---@param x lt.value
---@param weight lt.value
---@param attributes? { eps?: number }
---@return lt.value ...
function lt.op.rmsnorm(x, weight, attributes) end

---y, mean, rstd = (x - mean) * rstd * weight + bias, with rstd = 1/sqrt(variance + eps) over the last dimension
---@param x lt.value
---@param weight lt.value
---@param bias lt.value
---@param attributes? { eps?: number }
---@return lt.value ...
function lt.op.layernorm(x, weight, bias, attributes) end

---y = every head of x [tokens, heads * head_dim] turned by its token's position (i32 [tokens])
---@param x lt.value
---@param position lt.value
---@param attributes? { head_dim: integer, base?: number, scaling?: string, factor?: number, original_length?: number, inverse?: boolean }
---@return lt.value ...
function lt.op.rope(x, position, attributes) end

---spans i32 [blocks, 1, 2] = from q_position, q_document, k_position, k_document: first and end of the key blocks a query block may see
---@param q_position lt.value
---@param q_document lt.value
---@param k_position lt.value
---@param k_document lt.value
---@param attributes? { block?: integer, window?: integer, exchange?: string }
---@return lt.value ...
function lt.op.attention_spans(q_position, q_document, k_position, k_document, attributes) end

---out, lse = attention of q, k, v, q_position, q_document, k_position, k_document[, spans[, key_bias]]: out [tokens, heads * head_dim], lse f64 [tokens, heads] the log-sum-exp of the visible scores
---@param q lt.value
---@param k lt.value
---@param v lt.value
---@param q_position lt.value
---@param q_document lt.value
---@param k_position lt.value
---@param k_document lt.value
---@param spans? lt.value
---@param key_bias? lt.value
---@param attributes? { head_dim: integer, window?: integer, block?: integer, scale?: number, exchange?: string }
---@return lt.value ...
function lt.op.attention(q, k, v, q_position, q_document, k_position, k_document, spans, key_bias, attributes) end

---sums [tokens, kv_heads] = the probability each key receives, from q, k, q_position, q_document, k_position, k_document, spans or none, key_bias or none, lse
---@param q lt.value
---@param k lt.value
---@param q_position lt.value
---@param q_document lt.value
---@param k_position lt.value
---@param k_document lt.value
---@param spans? lt.value
---@param key_bias? lt.value
---@param lse? lt.value
---@param attributes? { head_dim: integer, window?: integer, block?: integer, scale?: number, exchange?: string }
---@return lt.value ...
function lt.op.attention_key_sums(q, k, q_position, q_document, k_position, k_document, spans, key_bias, lse, attributes) end

---y = silu(gate) * up, with silu(x) = x / (1 + exp(-x))
---@param gate lt.value
---@param up lt.value
---@return lt.value ...
function lt.op.swiglu(gate, up) end

---y = x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
---@param x lt.value
---@return lt.value ...
function lt.op.gelu(x) end

---y = cap * tanh(x / cap)
---@param x lt.value
---@param attributes? { cap: number }
---@return lt.value ...
function lt.op.softcap(x, attributes) end

---y = exp(x) / sum(exp(x)) over the last dimension
---@param x lt.value
---@return lt.value ...
function lt.op.softmax(x) end

---y = x / (1 - p) with a share p of the elements of x [tokens, width] set to 0; ordinal i32 [tokens]: the token's place in the step table
---@param x lt.value
---@param ordinal lt.value
---@param attributes? { p: number, stream: string }
---@return lt.value ...
function lt.op.dropout(x, ordinal, attributes) end

---lse, logit = of the logits x w^T the log-sum-exp of a row (f64) and the logit of its label: x [tokens, width], w [vocab, width], label i32 [tokens] (negative: none, a logit of 0); both [tokens]
---@param x lt.value
---@param w lt.value
---@param label lt.value
---@param attributes? { chunk?: integer }
---@return lt.value ...
function lt.op.label_logits(x, w, label, attributes) end

---loss = scale * sum of weight * (lse - logit) over tokens with label >= 0: lse f64, logit, label i32, weight f32, each [tokens], scale a scalar
---@param lse lt.value
---@param logit lt.value
---@param label lt.value
---@param weight lt.value
---@param scale lt.value
---@return lt.value ...
function lt.op.label_loss(lse, logit, label, weight, scale) end

---index i32 [rows …, k] = the k largest of each row of x, descending; ties go to the lower index, NaN is last
---@param x lt.value
---@param attributes? { k: integer }
---@return lt.value ...
function lt.op.top_k(x, attributes) end

---y[i, j] = x[i, index[i, j]]: x [rows …, width], index i32 [rows …, k]
---@param x lt.value
---@param index lt.value
---@return lt.value ...
function lt.op.take_last(x, index) end

---dx[i, index[i, j]] += dy[i, j] on zeros [rows …, width]: index i32 and dy [rows …, k]
---@param index lt.value
---@param dy lt.value
---@param attributes? { width: integer, granule?: integer }
---@return lt.value ...
function lt.op.put_last(index, dy, attributes) end

---source i32 [n], offset i32 [buckets + 1] = the stable order of the n keys (i32, flattened): row i of the order comes from source[i]; bucket b starts at offset[b], keys outside at the last offset
---@param key lt.value
---@param attributes? { buckets: integer }
---@return lt.value ...
function lt.op.sort_stable(key, attributes) end

---y[i] = x[index[i] / divide], zero where index[i] < 0: x [rows, width], index i32 [n]
---@param x lt.value
---@param index lt.value
---@param attributes? { divide?: integer }
---@return lt.value ...
function lt.op.gather_rows(x, index, attributes) end

---y[index[i] / divide] += x[i] in order of i, on zeros of the shape of `like` (its values are not read): x [n, width], index i32 [n] (negative: dropped), like [rows, width]
---@param x lt.value
---@param index lt.value
---@param like lt.value
---@param attributes? { divide?: integer }
---@return lt.value ...
function lt.op.scatter_rows(x, index, like, attributes) end

---buffer with buffer[row[i]] = x[i] in order of i, in place: buffer [rows, width] a state, x [n, width], row i32 [n] (one that the buffer does not have: dropped)
---@param buffer lt.value
---@param x lt.value
---@param row lt.value
---@return lt.value ...
function lt.op.write_rows(buffer, x, row) end

---y = the sum of x * x over all elements, a scalar
---@param x lt.value
---@return lt.value ...
function lt.op.sumsq(x) end

---norm, scale = sqrt(sumsq), min(1, clip / (norm + 1e-6)); scale is 1 without a clip, NaN if norm or guard is not finite
---@param sumsq lt.value
---@param guard? lt.value
---@param attributes? { clip?: number }
---@return lt.value ...
function lt.op.clip_scale(sumsq, guard, attributes) end

---p, m, v = the parameter and its moments, updated in place from p, m, v, the gradient g and its factor scale
---@param p lt.value
---@param m lt.value
---@param v lt.value
---@param g lt.value
---@param scale lt.value
---@param attributes? { lr: number, beta1?: number, beta2?: number, eps?: number, weight_decay?: number, t: number }
---@return lt.value ...
function lt.op.adamw(p, m, v, g, scale, attributes) end

---y = the named host array: one row for each token of the unit, or all of it
---@param attributes? { name: string, dtype?: string, tokens?: boolean, d1?: integer, d2?: integer, d3?: integer, granule?: integer }
---@return lt.value ...
function lt.op.feed(attributes) end

---the named host array = x: the tokens of this unit, or all of it
---@param x lt.value
---@param attributes? { name: string }
---@return lt.value ...
function lt.op.output(x, attributes) end

---y = what the unit before carried out under this name; zeros in the first
---@param attributes? { name: string, dtype?: string, d0?: integer, d1?: integer, d2?: integer }
---@return lt.value ...
function lt.op.carry_in(attributes) end

---hands x to the next unit's carry_in of this name
---@param x lt.value
---@param attributes? { name: string }
---@return lt.value ...
function lt.op.carry_out(x, attributes) end
