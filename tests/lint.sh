#!/usr/bin/env bash
# tests/lint.sh: the rules of the house that a program can check: layers, headers, names, the top level.
# usage: lint.sh ROOT. Prints one line a fault, exit 1 if there is any. tests/lint_selftest.sh plants each fault.
set -euo pipefail
cd "${1:?usage: lint.sh ROOT}"
shopt -s globstar nullglob

faults=0
fault() { printf 'lint: %s\n' "$1"; faults=$((faults + 1)); }

# What a folder may include, itself among it: core <- kernels <- graph <- compile <- run <- script <- cli;
# comm, data and store stand on core alone, and nothing left of run sees them.
may_include() {
  case $1 in
    core) echo core ;;
    kernels) echo core kernels ;;
    graph) echo core kernels graph ;;
    compile) echo core kernels graph compile ;;
    comm | data | store) echo "core $1" ;;
    run) echo core kernels graph compile comm data store run ;;
    script) echo core kernels graph compile comm data store run script ;;
    cli) echo core kernels graph compile comm data store run script cli ;;
  esac
}

check_includes() { # FOLDER-NAME FILE
  local allowed line target
  allowed=$(may_include "$1")
  while IFS= read -r line; do
    target=$(sed -E 's/.*#[[:space:]]*include[[:space:]]*["<]([^">]*)[">].*/\1/' <<< "$line")
    case $line in
      *\"*)
        case $target in
          ltrain.h) ;;
          */..* | ..*) fault "$2: includes \"$target\": write the path from the root or from host/" ;;
          */*) [[ " $allowed " == *" ${target%%/*} "* ]] || fault "$2: $1 must not include \"$target\"" ;;
          *) fault "$2: includes \"$target\": write the path from the root or from host/" ;;
        esac
        ;;
      *)
        case $target in
          lua.h | lualib.h | lauxlib.h | luajit.h)
            [ "$1" = script ] || fault "$2: only host/script includes <$target>" ;;
          mpi.h) [ "$1" = comm ] || fault "$2: only host/comm includes <$target>" ;;
          cblas.h | omp.h) [ "$1" = kernels ] || fault "$2: only kernels/ includes <$target>" ;;
          nccl.h) [ "$1" = comm ] || fault "$2: only host/comm includes <$target>" ;;
          cuda*) [[ $2 == kernels/cuda/* || $1 = comm ]] || fault "$2: only kernels/cuda includes <$target>" ;;
        esac
        ;;
    esac
  done < <(grep -E '^[[:space:]]*#[[:space:]]*include' "$2" || true)
}

# The first lines say what a file is.
check_header() { # FILE
  local name=${1##*/} first
  first=$(head -n 1 "$1")
  [[ $first == '#!'* ]] && first=$(sed -n 2p "$1")
  case $name in
    *.c | *.h | *.cu | *.cuh) [[ $first == "/* $name: "* ]] || fault "$1: does not begin with \"/* $name: …\"" ;;
    *.lua) [[ $first == "-- $name: "* ]] || fault "$1: does not begin with \"-- $name: …\"" ;;
  esac
}

check_text() { # FILE
  local found
  found=$(grep -nE '\b(TODO|FIXME|XXX)\b' "$1" | head -n 1 || true)
  [ -z "$found" ] || fault "$1:${found%%:*}: unfinished by its own words"
  [[ ${1##*/} != *util* ]] || fault "$1: no utils: name the subject"
}

for file in host/**/*.[ch] kernels/**/*.[ch] kernels/**/*.cu kernels/**/*.cuh; do
  folder=${file#host/}
  folder=${folder%%/*}
  [ "$file" = host/ltrain.h ] && folder=core
  if [ -z "$(may_include "$folder")" ]; then
    fault "$file: a folder the layers do not know"
    continue
  fi
  check_includes "$folder" "$file"
done

checked=0
for file in {host,kernels,tests}/**/*.{c,h,cu,cuh} {lua,recipes,tests}/**/*.lua; do
  check_header "$file"
  check_text "$file"
  checked=$((checked + 1))
done
[ $checked -gt 0 ] || fault "nothing to check in $PWD"

# The top level holds what the design names; a checkout's own list where there is one.
if git rev-parse --show-prefix 2> /dev/null | grep -qx ''; then
  top=$(git ls-files --cached --others --exclude-standard | cut -d/ -f1 | sort -u)
else
  top=$(find . -mindepth 1 -maxdepth 1 -printf '%f\n' | grep -vE '^(build.*|runs)$' | sort)
fi
while IFS= read -r name; do
  case $name in
    host | kernels | lua | recipes | tests | CMakeLists.txt | README.md | LICENSE | *.rockspec | .*) ;;
    *) fault "$name: not a thing of the top level" ;;
  esac
done <<< "$top"

[ $faults -eq 0 ] || { echo "lint: $faults faults" >&2; exit 1; }
echo "lint: $checked files"
