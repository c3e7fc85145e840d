#!/usr/bin/env bash
# tests/lint_selftest.sh: plants each fault that tests/lint.sh knows and expects it to be found, and nothing else.
# usage: lint_selftest.sh LINT
set -euo pipefail
lint=$(readlink -f "${1:?usage: lint_selftest.sh LINT}")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cases=0

# A tree without faults, in which every allowed kind of include occurs.
fresh() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/host/{core,graph/ops,run,comm,script} "$tree"/{kernels/cpu,lua,recipes,tests}
  printf '/* ltrain.h: x. */\n' > "$tree/host/ltrain.h"
  printf '/* a.c: x. */\n#include "ltrain.h"\n#include "core/a.h"\n#include <stdio.h>\n' > "$tree/host/core/a.c"
  printf '/* k.c: x. */\n#include "core/a.h"\n#include "kernels/cpu/k.h"\n#include <cblas.h>\n' > "$tree/kernels/cpu/k.c"
  printf '/* g.c: x. */\n#include "kernels/k.h"\n#include "graph/ops/g.h"\n' > "$tree/host/graph/ops/g.c"
  printf '/* r.c: x. */\n#include "comm/c.h"\n#include "compile/c.h"\n' > "$tree/host/run/r.c"
  printf '/* s.c: x. */\n#include <lua.h>\n#include "run/r.h"\n' > "$tree/host/script/s.c"
  printf '#!/usr/bin/env ltrain-lua\n-- m.lua: x.\n' > "$tree/lua/m.lua"
  printf '' > "$tree/README.md"
}

# expect TEXT: the lint fails, with exactly one fault, which holds TEXT.
expect() {
  local output
  cases=$((cases + 1))
  if output=$(bash "$lint" "$tree" 2> /dev/null); then
    echo "not found: $1"
    exit 1
  fi
  [[ $output == *"$1"* && $(wc -l <<< "$output") -eq 1 ]] || { printf 'expected %s, got:\n%s\n' "$1" "$output"; exit 1; }
  fresh
}

fresh
bash "$lint" "$tree" > /dev/null || { echo "faults found where there are none"; bash "$lint" "$tree"; exit 1; }

add() { printf '%s\n' "$2" >> "$tree/$1"; }
add host/core/a.c '#include "graph/g.h"'; expect 'core must not include "graph/g.h"'
add kernels/cpu/k.c '#include "run/r.h"'; expect 'kernels must not include "run/r.h"'
add host/graph/ops/g.c ' #  include "compile/c.h"'; expect 'graph must not include "compile/c.h"'
add host/graph/ops/g.c '#include "data/d.h"'; expect 'graph must not include "data/d.h"'
add host/run/r.c '#include "script/s.h"'; expect 'run must not include "script/s.h"'
add host/run/r.c '#include "../core/a.h"'; expect 'write the path from the root'
add host/run/r.c '#include "r.h"'; expect 'write the path from the root'
printf '/* c.c: x. */\n#include "graph/g.h"\n' > "$tree/host/comm/c.c"; expect 'comm must not include "graph/g.h"'
add host/run/r.c '#include <lauxlib.h>'; expect 'only host/script includes <lauxlib.h>'
add host/core/a.c '#include <mpi.h>'; expect 'only host/comm includes <mpi.h>'
add host/run/r.c '#include <cblas.h>'; expect 'only kernels/ includes <cblas.h>'
add host/run/r.c '#include <cuda_runtime.h>'; expect 'only kernels/cuda includes <cuda_runtime.h>'
add host/script/s.c '#include "embed/e.h"'; expect 'script must not include "embed/e.h"'
mkdir "$tree/host/misc"; printf '/* m.c: x. */\n' > "$tree/host/misc/m.c"; expect 'a folder the layers do not know'
printf '/* b.h: x. */\n' > "$tree/host/core/c.h"; expect 'does not begin with "/* c.h:'
printf 'return 1\n' > "$tree/lua/n.lua"; expect 'does not begin with "-- n.lua:'
printf '/* str_util.c: x. */\n' > "$tree/host/core/str_util.c"; expect 'no utils'
add host/run/r.c '/* TO''DO: later */'; expect 'unfinished by its own words'
printf '' > "$tree/Makefile"; expect 'Makefile: not a thing of the top level'
echo "ok $cases planted faults found"
