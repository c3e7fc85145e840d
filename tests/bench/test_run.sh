#!/usr/bin/env bash
# test_run.sh: every benchmark runs, on small sizes; the JSON is an array with the agreed keys; names can be chosen.
# usage: test_run.sh RUN, with LT_BUILD_DIR the folder that holds the built benchmarks.
set -euo pipefail
run=${1:?usage: test_run.sh RUN}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { printf 'bench: %s\n' "$*" >&2; exit 1; }

mpi=none
if [ -x "$LT_BUILD_DIR/tests/bench/bench_scale" ] && command -v mpirun > /dev/null; then mpi=mpi; fi
bash "$run" --quick --json "$work/all.json" > "$work/table"
"$LT_BUILD_DIR/ltrain-lua" --script /dev/stdin "$work/all.json" "$mpi" << 'EOF' || die "the JSON is not what was agreed"
local f = assert(io.open(arg[1]))
local rows = lt.json.decode(f:read "*a")
local names = {}
for _, row in ipairs(rows) do
  for _, key in ipairs { "name", "shape", "dtype", "threads", "value", "unit" } do assert(row[key] ~= nil, key) end
  assert((row.value > 0 or row.name:find "%.wait$") and row.value < math.huge, row.name)
  assert(not names[row.name], row.name .. " stands twice")
  names[row.name] = row
end
for _, name in ipairs { "product.f32.1024x768x3072", "attention.f32.fwd.d64.t4096", "attention.f32.both.d64.t4096",
  "attention.f32.both.d128.t16384", "norm.f32", "adamw.f32", "loss.f32", "step.w256.f32.t1024",
  "step.gpt2_124m.f32.t1024", "step.gpt2_124m.bf16.t4096", "product.bf16.1024x768x3072", "attention.bf16.both.d64.t4096",
  "step.w256.bf16.t8192" } do
  assert(names[name], name .. " is missing")
end
assert(names["product.f32.1024x768x3072"].share_of_fma > 0)
assert(names["adamw.f32"].share_of_triad > 0)
assert(#rows >= 60, #rows .. " rows only")
if arg[2] == "mpi" then
  assert(names["scale.dp2.w256.f32.t8192"].unit == "x" and names["scale.dp2.w256.f32.t8192.wait"].unit == "of alone")
  for _, exchange in ipairs { "ring", "direct", "all_gather", "ulysses" } do
    local name = "sp." .. exchange .. ".zigzag.t8192"
    assert(names[name].unit == "x" and names[name .. ".wait"] and names[name .. ".attention"].value > 0)
  end
end
EOF
rows=$(grep -c . "$work/all.json")
[ "$(grep -c '"name"' "$work/all.json")" -eq $((rows - 2)) ] || die "not one object a line"

bash "$run" --quick --json "$work/one.json" 'product.f32.1024x768x*.dw' > /dev/null
grep -q '"product.f32.1024x768x3072.dw"' "$work/one.json" || die "a glob does not find its name"
! grep -q -e norm -e step -e '3072"' "$work/one.json" || die "a glob finds others too"
bash "$run" --quick --items 'step.small.bf16*' > "$work/items"
grep -q '^  matmul  *[1-9]' "$work/items" && grep -q '^  all  *[1-9]' "$work/items" || die "--items names no operations"
! bash "$run" --quick nothing_has_this_name > /dev/null 2>&1 || die "a name that nothing has is no error"
if bash "$run" --quick --isa mmx norm > /dev/null 2> "$work/error"; then die "an unknown instruction set is taken"; fi
grep -q "portable" "$work/error" || die "the error does not name what there is"
