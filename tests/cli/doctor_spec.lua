-- doctor_spec.lua: --doctor: findings of its own machine, what hurts is named, what does not work ends with 1.
package.path = os.getenv "LT_TEST_DATA" .. "/cli/?.lua;" .. package.path
local command = require "command"

describe("ltrain-lua --doctor", function()
  local folder
  setup(function() folder = command.scratch() end)
  teardown(function() command.remove(folder) end)

  -- With an environment of its own: what it is told of MPI is a fake launcher's word.
  local function see(environment, launcher, arguments)
    command.write(folder .. "/mpirun", "#!/bin/sh\n" .. (launcher or "exit 0") .. "\n")
    os.execute("chmod +x " .. folder .. "/mpirun")
    local script = string.format("cd %s && PATH=$PWD:$PATH env OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 %s '%s' "
      .. "--doctor %s > out 2> err; echo $? > code", folder, environment or "", command.path, arguments or "")
    os.execute(script)
    return tonumber(command.read(folder .. "/code")), command.read(folder .. "/out"), command.read(folder .. "/err")
  end

  it("finds a line for everything, as text and as JSON", function()
    local status, text = see()
    assert.equal(0, status)
    local status_json, json = see(nil, nil, "--json")
    assert.equal(0, status_json)
    local found = lt.json.decode(json)
    assert.is_true(found.ok)
    assert.is_true(#found.findings >= 12)
    for _, finding in ipairs(found.findings) do
      assert.matches(finding.name, text, 1, true)
      assert.is_true(finding.level == "ok" or finding.level == "note")
      assert.is_true(#finding.text > 0)
    end
    assert.matches("products +%d+%.%d GFLOP/s on one thread", text)
    assert.matches("AMX +this processor has ", text)
    if text:find "kernels for amx" then
      assert.matches("ok    AMX +this processor has AMX, and the system gives it", text)
    end
  end)

  it("names what hurts, and what to do", function()
    local status, text = see "OMP_WAIT_POLICY=active LTRAIN_ISA=portable LC_ALL=C"
    assert.equal(0, status)
    assert.matches("note  OpenMP +OMP_WAIT_POLICY=active: .-\n +unset OMP_WAIT_POLICY\n", text)
    assert.matches("locale .-\n +export LC_ALL=C%.UTF%-8", text)
    local crowded = select(2, see "OMP_NUM_THREADS=999")
    assert.matches("note  threads +999 threads on %d+ usable of %d+ .-\n +fewer threads are faster", crowded)
    if select(2, see()):find "kernels for a" then
      assert.matches("note  processor .- kernels for portable by LTRAIN_ISA", text)
      text = select(2, see "OPENBLAS_CORETYPE=Prescott")
      assert.matches("note  OpenBLAS +runs as for a Prescott, .-\n +OPENBLAS_CORETYPE=", text)
    end
  end)

  it("fails where the launcher does not work, with its word", function()
    if not select(2, see()):find "MPI +mpirun starts" then return end -- not built in
    local status, text, err = see(nil, "echo 'no route to anybody'; exit 7")
    assert.equal(1, status)
    assert.matches("bad   MPI +mpirun does not start two ranks %(status 7%): no route to anybody\n", text)
    assert.matches("something does not work here", err)
  end)
end)
