-- comm_spec.lua: lt.comm: collectives of tensors on ranks of this process and of a real job, and how a job fails.
local function run(command)
  local f = assert(io.popen(command .. " 2>&1; echo status $?"))
  local out = f:read "*a"
  f:close()
  return out:gsub("status (%d+)%s*$", ""), tonumber(out:match "status (%d+)%s*$")
end
local self = run "readlink /proc/$PPID/exe":gsub("%s+$", "")
local has_mpi = select(2, run "command -v mpirun") == 0
  and not run("OMPI_COMM_WORLD_SIZE=2 " .. self .. " -e 'lt.comm.world()'"):find "without MPI"

-- Run a script on n ranks: what they wrote, the job's exit status, seconds.
local function job(n, text)
  local name = os.tmpname()
  local f = assert(io.open(name, "w"))
  f:write(text)
  f:close()
  local start = os.time()
  local out, status = run("ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " ..
    "OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0 OMP_NUM_THREADS=1 " ..
    "mpirun -q --oversubscribe --bind-to none -np " .. n .. " " .. self .. " --script " .. name)
  os.remove(name)
  return out, status, os.time() - start
end
local function count(text, word) return select(2, text:gsub(word, "")) end

-- What every rank checks, whatever lies behind its communicator: a function of c, as text for the job.
local script = [[
local function all(c)
  local n, r = c.world, c.rank
  local function numbers(rows, add)
    local t = {}
    for i = 1, rows do t[i] = { i + add, 10 * r } end
    return rows > 0 and lt.tensor(t, "f64") or lt.tensor.zeros({ 0, 2 }, "f64")
  end
  local sum = c:all_reduce(numbers(5, r))
  assert(sum:get(5, 1) == 5 * n + n * (n - 1) / 2 and sum:get(1, 2) == 10 * n * (n - 1) / 2)
  assert(c:all_reduce(lt.tensor({ r, 1 - r }), { reduce = "max" }):equal(lt.tensor { n - 1, 1 }))
  local part = c:reduce_scatter(numbers(2 * n + 1, 0))
  assert(part.shape[1] == (r == 0 and 3 or 2) and part.shape[2] == 2)
  assert(part:get(1, 1) == n * (r == 0 and 1 or 2 * r + 2))
  local rows = {}
  for i = 1, n do rows[i] = i == n and 2 * n + 1 or 0 end
  local last = c:reduce_scatter(numbers(2 * n + 1, 0), { rows = rows })
  assert(last.shape[1] == (r == n - 1 and 2 * n + 1 or 0))
  local gathered = c:all_gather(numbers(r, 0)) -- rank 0 has none
  assert(gathered.shape[1] == n * (n - 1) / 2)
  assert(n == 1 or gathered:get(gathered.shape[1], 1) == n - 1)
  for i = 1, n do rows[i] = (r + i) % 3 end
  local total = 0
  for i = 1, n do total = total + rows[i] end
  local moved, came = c:all_to_all(numbers(total, 0), rows)
  local at = 1
  for i = 1, n do
    assert(came[i] == (i - 1 + r + 1) % 3)
    if came[i] > 0 then assert(moved:get(at, 2) == 10 * (i - 1)) end
    at = at + came[i]
  end
  assert(at == moved.shape[1] + 1)
  local told = c:broadcast(r == n - 1 and lt.tensor({ { 1 }, { 2 } }, "i32") or nil, { root = n - 1 })
  assert(told:equal(lt.tensor({ { 1 }, { 2 } }, "i32")))
  if n > 1 then
    local right, left = (r + 1) % n, (r + n - 1) % n
    if r == 0 then c:send(lt.tensor { r }, right, 7) end
    assert(c:recv(left, 7):number() == left)
    if r ~= 0 then c:send(lt.tensor { r }, right, 7) end
    local pair = { 0, n - 1 }
    if r == 0 or r == n - 1 then
      assert(c:all_reduce(lt.tensor { r + 1 }, { group = pair }):number() == (n > 1 and n + 1 or 1))
    end
  end
  local round = c:shift(lt.tensor { 5, r }, (r + 1) % n, (r + n - 1) % n)
  assert(round:equal(lt.tensor { 5, (r + n - 1) % n }))
  if n > 2 then -- from 0 to 2 alone
    local came = c:shift(r == 0 and lt.tensor({ 7 }, "i32") or nil, 2, r == 2 and 0 or nil)
    assert(r == 2 and came:number() == 7 or came == nil)
  end
  local under_way = c:start_all_reduce(lt.tensor { 1 })
  c:barrier()
  assert(under_way.wait():number() == n)
  assert(n == 1 or c:stats().bytes_sent > 0)
  return r
end
]]
local all = assert(loadstring(script .. "return all"))()

describe("lt.comm", function()
  it("is one rank by itself", function()
    assert.equal("self", lt.comm.self().backend)
    assert.equal(0, all(lt.comm.self()))
  end)
  it("needs no MPI for one rank", function()
    assert.equal("self", lt.comm.world().backend)
    local f = assert(io.open "/proc/self/maps")
    local maps = f:read "*a"
    f:close()
    assert.truthy(maps:find "libc", 1, true)
    assert.is_nil(maps:find("libmpi", 1, true))
  end)
  it("is many ranks in one process", function()
    for n = 1, 5 do
      local out = lt.comm.locals(n, all)
      assert.equal(n, #out)
      assert.equal(n - 1, out[n])
    end
  end)
  it("says when no rank can go on", function()
    assert.error_matches(function()
      lt.comm.locals(2, function(c) if c.rank == 0 then c:barrier() end end)
    end, "no rank can go on")
    assert.error_matches(function()
      lt.comm.locals(2, function(c) c:all_reduce(lt.tensor.zeros { 2 + c.rank }) end)
    end, "ranks 0 and 1 disagree on the count")
  end)
  it("refuses what is too small, of another type, or not a member", function()
    local c = lt.comm.self()
    local t = lt.tensor { 1, 2 }
    assert.error_matches(function()
      c.handle:start("all_reduce", { send = t, recv = lt.tensor { 1 }, count = 2 })
    end, "all_reduce needs 2 elements of f32 to receive into")
    assert.error_matches(function() c:all_reduce(t, { group = { 1 } }) end, "rank 0 is no member")
    assert.error_matches(function() c:reduce_scatter(t, { rows = { 3 } }) end, "rows add up to 3, not 2")
    assert.error_matches(function() c:send(t, 0) end, "rank 0 names itself")
    c:close()
    assert.error_matches(function() c:barrier() end, "closed")
  end)
  if not has_mpi then return end
  it("is the ranks of a job", function()
    for n = 2, 3 do
      local out, status = job(n, script .. 'local c = lt.comm.world() io.write("done ", all(c), "\\n") c:close()')
      assert.equal(0, status, out)
      assert.equal(n, count(out, "done %d"))
    end
    local out, status = job(2, 'lt.comm.world():barrier()') -- not closed: the state does it
    assert.equal(0, status, out)
  end)
  it("ends on all ranks, with one message, when one fails", function()
    local out, status, seconds = job(3, [[
      local c = lt.comm.world()
      for i = 1, 100 do
        if i == 50 and c.rank == 2 then error "this rank has had enough" end
        c:all_reduce(lt.tensor { i })
      end]])
    assert.is_true(status ~= 0 and seconds < 10)
    assert.equal(1, count(out, "rank 2: .-this rank has had enough"), out)
    out, status, seconds = job(2, [[
      local c = lt.comm.world()
      c:barrier()
      if c.rank == 1 then os.execute "kill -9 $PPID" end
      c:barrier()]])
    assert.is_true(status ~= 0 and seconds < 10)
    assert.equal(1, count(out, "rank 1 %(process %d+%) ended without a word"), out)
  end)
end)
