-- comm.lua: communicators for scripts: collectives of tensors that return tensors. Ranks and members count from 0.
-- A call waits for its peers; for a rank of `locals` waiting is a coroutine's yield, so all of them run in one thread.
-- Parts are cut and joined along the first dimension; what a rank must know of the others' shapes it asks them first.
local core = require "ltrain.core"
local tensor = core.tensor

local comm = {}
local methods = {}
local mt = { __index = methods }

---@class lt.comm
---@field rank integer this one, from 0
---@field world integer how many there are
---@field backend string "self", "local", "mpi"

local function wrap(handle)
  local rank, world, backend = handle:about()
  return setmetatable({ handle = handle, rank = rank, world = world, backend = backend }, mt)
end

-- One rank, no other.
function comm.self() return wrap(core.comm.self()) end

-- The ranks of the job that mpirun or srun started; one rank where there is none.
function comm.world() return wrap(core.comm.world()) end

-- f(comm) on each of n ranks of this process, in turns; returns the list of what they return.
function comm.locals(n, f)
  local all, result, left, moved = core.comm.locals(n), {}, n, true
  local thread = {}
  for i = 1, n do thread[i] = coroutine.create(f) end
  local function run(i)
    local ok, value = coroutine.resume(thread[i], wrap(all[i]))
    if not ok then error(value, 0) end
    if coroutine.status(thread[i]) ~= "dead" then return value == "moved" end
    result[i], thread[i], left = value, nil, left - 1
    return true
  end
  while left > 0 do
    if not moved then error("no rank can go on: each of the " .. left .. " left waits for another", 2) end
    moved = false
    for i = 1, n do
      if thread[i] then moved = run(i) or moved end
    end
  end
  for i = 1, n do all[i]:close() end
  return result
end

-- ---- Waiting ----

-- Of a rank of `locals`, the first yield after a start says that something moved.
local function wait(self, transfer)
  local said = "moved"
  while not transfer:done() do
    if self.backend == "local" then
      coroutine.yield(said)
      said = "waits"
    else
      transfer:doze()
    end
  end
end

local function run(self, kind, fields) wait(self, self.handle:start(kind, fields)) end

-- ---- Shapes ----

local function group_of(self, options)
  local group = options and options.group
  local n, member = group and #group or self.world, self.rank
  for i = 1, group and n or 0 do
    if group[i] == self.rank then member = i - 1 end
  end
  return group, n, member
end

local function rows_of(t) return t.rank > 0 and t.shape[1] or 1 end
local function row_size(t)
  local size = 1
  for d = 2, t.rank do size = size * t.shape[d] end
  return size
end
local function with_rows(t, rows)
  local dims = t.shape
  dims[1] = rows
  return tensor.zeros(dims, t.dtype)
end
local function times(list, factor)
  local out = {}
  for i, n in ipairs(list) do out[i] = n * factor end
  return out
end
local function total(list)
  local sum = 0
  for _, n in ipairs(list) do sum = sum + n end
  return sum
end

-- Rows cut evenly over n: the first ones hold one more.
local function even(rows, n)
  local out = {}
  for i = 1, n do out[i] = math.floor(rows / n) + (i <= rows % n and 1 or 0) end
  return out
end

-- One number a member, to and from each.
local function exchange(self, group, n, numbers)
  local ones, send, recv = {}, tensor(numbers, "i64"), tensor.zeros({ n }, "i64")
  for i = 1, n do ones[i] = 1 end
  run(self, "all_to_all", { send = send, recv = recv, counts = ones, send_counts = ones, group = group })
  return recv:flat()
end

-- ---- Collectives ----

local function start_all_reduce(self, t, options)
  local out = tensor.zeros(t.shape, t.dtype)
  local group = group_of(self, options)
  local reduce = options and options.reduce
  return self.handle:start("all_reduce",
    { send = t, recv = out, count = t.count, group = group, reduce = reduce }), out
end

-- The reduction (options.reduce: "sum", "max") over all members (options.group: a list of ranks), on every one.
function methods:all_reduce(t, options)
  local transfer, out = start_all_reduce(self, t, options)
  wait(self, transfer)
  return out
end

-- The same, under way while the caller goes on: returns { done = function(), wait = function() → tensor }.
function methods:start_all_reduce(t, options)
  local transfer, out = start_all_reduce(self, t, options)
  return {
    done = function() return transfer:done() end,
    wait = function()
      wait(self, transfer)
      return out
    end,
  }
end

-- This member's rows of the reduction; options.rows says how many each member gets.
function methods:reduce_scatter(t, options)
  local group, n, member = group_of(self, options)
  local rows = options and options.rows or even(rows_of(t), n)
  if total(rows) ~= rows_of(t) then error("rows add up to " .. total(rows) .. ", not " .. rows_of(t), 2) end
  local out = with_rows(t, rows[member + 1])
  run(self, "reduce_scatter", { send = t, recv = out, counts = times(rows, row_size(t)), group = group,
    reduce = options and options.reduce })
  return out
end

-- The members' rows, one after the other; each may have any number of them.
function methods:all_gather(t, options)
  local group, n = group_of(self, options)
  local mine = {}
  for i = 1, n do mine[i] = rows_of(t) end
  local rows = exchange(self, group, n, mine)
  local out = with_rows(t, total(rows))
  run(self, "all_gather", { send = t, recv = out, counts = times(rows, row_size(t)), group = group })
  return out
end

-- rows[i] of t go to member i; returns what came from each, in their order, and how many rows that was.
function methods:all_to_all(t, rows, options)
  local group, n = group_of(self, options)
  if #rows ~= n or total(rows) ~= rows_of(t) then
    error(#rows .. " counts for " .. n .. " members, " .. total(rows) .. " rows of " .. rows_of(t), 2)
  end
  local came = exchange(self, group, n, rows)
  local out, size = with_rows(t, total(came)), row_size(t)
  run(self, "all_to_all",
    { send = t, recv = out, counts = times(came, size), send_counts = times(rows, size), group = group })
  return out, came
end

local types = { "f32", "f64", "bf16", "i32", "i64", "u8" }

-- What a receiver must know before it can make room: type, rank, extents.
local function header(t)
  local h = tensor.zeros({ 6 }, "i64")
  if not t then return h end
  for i, name in ipairs(types) do
    if name == t.dtype then h:set(1, i) end
  end
  h:set(2, t.rank)
  for d, extent in ipairs(t.shape) do h:set(2 + d, extent) end
  return h
end
local function room(h)
  local dims = {}
  for d = 1, h:get(2) do dims[d] = h:get(2 + d) end
  return tensor.zeros(dims, types[h:get(1)])
end

-- The tensor of member `root` (0), on every one; the others pass nothing.
function methods:broadcast(t, options)
  local root = options and options.root or 0
  local group, _, member = group_of(self, options)
  local sends = member == root
  if sends and not t then error("the root of a broadcast has the tensor", 2) end
  local h = header(sends and t)
  run(self, "broadcast", { send = h, recv = h, count = 6, root = root, group = group })
  local out = room(h)
  run(self, "broadcast", { send = sends and t or out, recv = out, count = out.count, root = root, group = group })
  return out
end

-- To another rank; it waits until that one receives. Tags keep apart what must not be confused.
function methods:send(t, to, tag)
  run(self, "send", { send = header(t), count = 6, root = to, tag = tag })
  run(self, "send", { send = t, count = t.count, root = to, tag = tag })
end
function methods:recv(from, tag)
  local h = header()
  run(self, "recv", { recv = h, count = 6, root = from, tag = tag })
  local out = room(h)
  run(self, "recv", { recv = out, count = out.count, root = from, tag = tag })
  return out
end

-- A collective: t goes to member `to`, what member `from` passed comes back. Nothing goes without t, nothing comes
-- without `from`; all members must come here, but wait for nobody with whom they have nothing.
function methods:shift(t, to, from, options)
  local group, _, member = group_of(self, options)
  local h = header()
  run(self, "shift", { send = header(t), count = t and 6 or 0, root = t and to or member,
    recv = h, recv_count = from and 6 or 0, from = from or member, group = group })
  local out = from and room(h)
  run(self, "shift", { send = t, count = t and t.count or 0, root = t and to or member,
    recv = out, recv_count = from and out.count or 0, from = from or member, group = group })
  return out
end

function methods:barrier(options) run(self, "barrier", { group = (group_of(self, options)) }) end

-- Counted since it was made: { transfers, bytes_sent, bytes_received }.
function methods:stats()
  local transfers, sent, received = self.handle:stats()
  return { transfers = transfers, bytes_sent = sent, bytes_received = received }
end

-- Of the world: all ranks must come here, and MPI ends.
function methods:close() self.handle:close() end

return comm
