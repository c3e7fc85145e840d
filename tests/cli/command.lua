-- command.lua: running ltrain-lua from a spec: in a scratch folder, with text to learn from, killed when asked.
-- The command is the very program that runs the spec.
local ffi = require "ffi"
local assert = require "luassert"
ffi.cdef [[
long readlink(const char *path, char *to, size_t n);
char *mkdtemp(char *template);
]]

local command = {}

do
  local buffer = ffi.new "char[1024]"
  local n = ffi.C.readlink("/proc/self/exe", buffer, 1024)
  command.path = ffi.string(buffer, n)
end

-- A new folder in the one the tests run in; remove it at the end.
function command.scratch()
  local template = "cli_spec.XXXXXX"
  local buffer = ffi.new("char[?]", #template + 1, template)
  assert(ffi.C.mkdtemp(buffer) ~= nil, "no scratch folder")
  return ffi.string(buffer)
end

function command.remove(folder)
  assert(folder:match "^cli_spec%.%w+$")
  os.execute("rm -rf '" .. folder .. "'")
end

-- What lies in such a folder under a name of letters and digits.
function command.remove_in(folder, name)
  assert(folder:match "^cli_spec%.%w+$" and name:match "^%w+$")
  os.execute("rm -rf '" .. folder .. "/" .. name .. "'")
end

function command.write(path, text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

function command.read(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

-- Text in several files: words of a small language, the same every time.
function command.write_text(folder)
  os.execute("mkdir -p '" .. folder .. "/text'")
  local draw = lt.random(3, "text")
  local words = { "int ", "char ", "return ", "x", "y", " = ", " + ", ";\n", "(", ")", "{\n", "}\n" }
  for i = 1, 12 do
    local out = {}
    for k = 1, 60 + 20 * i do out[k] = words[draw:int(1, #words)] end
    command.write(string.format("%s/text/%02d.txt", folder, i), table.concat(out))
  end
end

-- Such a folder with a recipe, recipe.lua, and text for it → the folder, the recipe's path.
function command.prepare(recipe)
  local folder = command.scratch()
  command.write(folder .. "/recipe.lua", recipe)
  command.write_text(folder)
  return folder, folder .. "/recipe.lua"
end

-- Run with the arguments (a string for the shell) → exit status, what was printed (both streams).
-- seconds: kill it after so long, with SIGKILL or `signal`; the status is 128 + 9 then, unless it ended before.
-- before: assignments for its environment.
function command.run(folder, arguments, seconds, signal, before)
  local log, status = folder .. "/log", folder .. "/status"
  local script = string.format("exec > '%s' 2>&1; %s '%s' %s & pid=$!; ", log, before or "", command.path,
    arguments)
  if seconds then script = script .. string.format("sleep %.3f; kill -%s $pid; ", seconds, signal or "KILL") end
  script = script .. string.format("wait $pid; echo $? > '%s'", status)
  command.write(folder .. "/script.sh", script)
  os.execute("sh '" .. folder .. "/script.sh' 2> /dev/null")
  return tonumber(command.read(status)), command.read(log)
end

-- Is there a launcher, and a build that knows it?
function command.has_mpi()
  local found = os.execute "command -v mpirun > /dev/null"
  return (found == true or found == 0) and io.open((command.path:gsub("[^/]+$", "libltrain-mpi.so"))) ~= nil
end

-- The same as a job of `ranks` ranks; and of whatever is said to mpirun. After `seconds`, or 60, it is
-- ended, and the status is 124.
function command.job_of(folder, words, seconds)
  local script = string.format("exec > '%s/log' 2>&1; mpirun -q --oversubscribe --bind-to none %s\n" ..
    "echo $? > '%s/status'\n", folder, words, folder)
  command.write(folder .. "/script.sh", script)
  command.write(folder .. "/status", "124")
  os.execute("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 " ..
    "OMPI_MCA_btl_base_warn_component_unused=0 OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 timeout " ..
    (seconds or 60) .. " sh '" .. folder .. "/script.sh' 2> /dev/null")
  return tonumber(command.read(folder .. "/status")), command.read(folder .. "/log")
end

function command.job(folder, ranks, arguments, seconds)
  return command.job_of(folder, string.format("-np %d '%s' %s", ranks, command.path, arguments), seconds)
end

-- The lines of a run's metrics, without what is measured by the clock; and as tables.
function command.metrics(run)
  local lines, records = {}, {}
  for line in command.read(run .. "/metrics.jsonl"):gmatch "[^\n]+" do
    records[#records + 1] = lt.json.decode(line)
    for _, name in ipairs { "seconds", "waited" } do line = line:gsub(',"' .. name .. '":[^,}]*', "") end
    lines[#lines + 1] = (line:gsub('"tokens_per_s":[^,}]*,?', ""))
  end
  return lines, records
end

-- Train the recipe of a prepared folder in the folder's `name`, to a good end → the same, and what was said.
function command.train(folder, name, more)
  local status, said = command.run(folder, string.format("%s/recipe.lua --run %s/%s %s", folder, folder, name,
    more or ""))
  assert.equal(0, status, said)
  local lines, records = command.metrics(folder .. "/" .. name)
  return lines, records, said
end

-- ---- TensorBoard's event files, by the format's description ----

local function crc32c(s)
  local x = -1
  for i = 1, #s do
    x = bit.bxor(x, s:byte(i))
    for _ = 1, 8 do x = bit.bxor(bit.rshift(x, 1), bit.band(0x82f63b78, -bit.band(x, 1))) end
  end
  return bit.bnot(x)
end

local function little(s) -- bytes → number
  local x = 0
  for i = #s, 1, -1 do x = x * 256 + s:byte(i) end
  return x
end

local function check_sum(s, sum)
  local masked = bit.tobit(bit.ror(crc32c(s), 15) + 0xa282ead8)
  assert(masked == bit.tobit(little(sum)), "a sum is wrong")
end

local function varint(s, at)
  local x, scale = 0, 1
  repeat
    local byte = s:byte(at)
    x, scale, at = x + byte % 128 * scale, scale * 128, at + 1
  until byte < 128
  return x, at
end

-- The fields of a message: { number, what }.
local function message(s)
  local fields, at = {}, 1
  while at <= #s do
    local key, value, n
    key, at = varint(s, at)
    local wire = key % 8
    if wire == 0 then
      value, at = varint(s, at)
    else
      if wire == 2 then n, at = varint(s, at) end
      n = n or wire == 1 and 8 or 4
      value, at = s:sub(at, at + n - 1), at + n
    end
    fields[#fields + 1] = { (key - wire) / 8, value }
  end
  return fields
end

local function values_of(summary)
  local values = {}
  for _, value in ipairs(message(summary)) do
    local tag, number
    for _, f in ipairs(message(value[2])) do
      if f[1] == 1 then tag = f[2] end
      if f[1] == 2 then number = tonumber(ffi.cast("const float *", f[2])[0]) end
    end
    values[tag] = number
  end
  return values
end

-- The events of a run's only event file, in its order: { step =, values = { tag = number } }.
function command.events(run)
  local list = io.popen("ls " .. run .. "/events.out.tfevents.*")
  local name = list:read "*l"
  assert(name and not list:read "*l", "not one event file")
  list:close()
  local s, at, events = command.read(name), 1, {}
  while at <= #s do
    local n = little(s:sub(at, at + 7))
    check_sum(s:sub(at, at + 7), s:sub(at + 8, at + 11))
    check_sum(s:sub(at + 12, at + 11 + n), s:sub(at + 12 + n, at + 15 + n))
    local event, version = {}, nil
    for _, f in ipairs(message(s:sub(at + 12, at + 11 + n))) do
      if f[1] == 2 then event.step = f[2] end
      if f[1] == 3 then version = f[2] end
      if f[1] == 5 then event.values = values_of(f[2]) end
    end
    assert(version == (at == 1 and "brain.Event:2" or nil))
    if not version then events[#events + 1] = event end
    at = at + 16 + n
  end
  return events
end

return command
