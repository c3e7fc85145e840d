-- command.lua: running ltrain-lua from a spec: in a scratch folder, with text to learn from, killed when asked.
-- The command is the very program that runs the spec.
local ffi = require "ffi"
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

-- Run with the arguments (a string for the shell) → exit status, what was printed (both streams).
-- seconds: kill it after so long, with SIGKILL or `signal`; the status is 128 + 9 then, unless it ended before.
function command.run(folder, arguments, seconds, signal)
  local log, status = folder .. "/log", folder .. "/status"
  local script = string.format("exec > '%s' 2>&1; '%s' %s & pid=$!; ", log, command.path, arguments)
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

-- The same as a job of `ranks` ranks.
function command.job(folder, ranks, arguments)
  local script = string.format("exec > '%s/log' 2>&1; mpirun -q --oversubscribe --bind-to none -np %d '%s' %s\n" ..
    "echo $? > '%s/status'\n", folder, ranks, command.path, arguments, folder)
  command.write(folder .. "/script.sh", script)
  os.execute("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 " ..
    "OMPI_MCA_btl_base_warn_component_unused=0 OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 timeout 60 sh '" ..
    folder .. "/script.sh' 2> /dev/null")
  return tonumber(command.read(folder .. "/status")), command.read(folder .. "/log")
end

-- The lines of a run's metrics, without what is measured by the clock; and as tables.
function command.metrics(run)
  local lines, records = {}, {}
  for line in command.read(run .. "/metrics.jsonl"):gmatch "[^\n]+" do
    lines[#lines + 1] = (line:gsub('"tokens_per_s":[^,}]*,?', ""))
    records[#records + 1] = lt.json.decode(line)
  end
  return lines, records
end

return command
