#!/usr/bin/env bash
# tests/lint.sh: the rules of the house that a program can check: layers, headers, names, the top level.
# usage: lint.sh ROOT. Prints one line a fault, exit 1 if there is any. tests/lint_selftest.sh plants each fault.
set -euo pipefail
cd "${1:?usage: lint.sh ROOT}"
shopt -s globstar nullglob

faults=0
fault() { printf 'lint: %s\n' "$1"; faults=$((faults + 1)); }

# What a folder may include, itself among it: core <- kernels <- graph <- compile <- run <- script <- embed <- cli;
# comm, data and store stand on core alone, and nothing left of run sees them.
declare -A may_include=(
  [core]="core"
  [kernels]="core kernels"
  [graph]="core kernels graph"
  [compile]="core kernels graph compile"
  [comm]="core comm"
  [data]="core data"
  [store]="core store"
  [run]="core kernels graph compile comm data store run"
  [script]="core kernels graph compile comm data store run script"
  [embed]="core kernels graph compile comm data store run script embed"
  [cli]="core kernels graph compile comm data store run script embed cli"
)

folder_of() { # FILE: into $folder, the layer it belongs to
  folder=${1#host/}
  folder=${folder%%/*}
  [ "$1" != host/ltrain.h ] || folder=core
}

check_quoted() { # FILE TARGET: our own headers
  case $2 in
    ltrain.h) ;;
    ../* | */../*) fault "$1: includes \"$2\": write the path from the root or from host/" ;;
    */*) [[ " ${may_include[$folder]} " == *" ${2%%/*} "* ]] || fault "$1: $folder must not include \"$2\"" ;;
    *) fault "$1: includes \"$2\": write the path from the root or from host/" ;;
  esac
}

check_angled() { # FILE TARGET: libraries that one layer owns
  case $2 in
    lua.h | lualib.h | lauxlib.h | luajit.h)
      [ "$folder" = script ] || fault "$1: only host/script includes <$2>" ;;
    mpi.h | nccl.h) [ "$folder" = comm ] || fault "$1: only host/comm includes <$2>" ;;
    cblas.h | omp.h) [ "$folder" = kernels ] || fault "$1: only kernels/ includes <$2>" ;;
    cuda*) [[ $1 == kernels/cuda/* || $folder = comm ]] || fault "$1: only kernels/cuda includes <$2>" ;;
  esac
}

# The first lines say what a file is.
check_header() { # FILE
  local name=${1##*/} first
  {
    IFS= read -r first || true
    [[ $first != '#!'* ]] || IFS= read -r first || true
  } < "$1"
  case $name in
    *.c | *.h | *.cu | *.cuh) [[ $first == "/* $name: "* ]] || fault "$1: does not begin with \"/* $name: …\"" ;;
    *.lua) [[ $first == "-- $name: "* ]] || fault "$1: does not begin with \"-- $name: …\"" ;;
  esac
}

for file in host/**/*.[ch] kernels/**/*.[ch] kernels/**/*.cu kernels/**/*.cuh; do
  folder_of "$file"
  [ -n "${may_include[$folder]-}" ] || fault "$file: a folder the layers do not know"
done

include='^([^:]+):[[:space:]]*#[[:space:]]*include[[:space:]]*(["<])([^">]*)[">]'
while IFS= read -r line; do
  [[ $line =~ $include ]] || continue
  file=${BASH_REMATCH[1]}
  folder_of "$file"
  [ -n "${may_include[$folder]-}" ] || continue
  if [ "${BASH_REMATCH[2]}" = '"' ]; then
    check_quoted "$file" "${BASH_REMATCH[3]}"
  else
    check_angled "$file" "${BASH_REMATCH[3]}"
  fi
done < <(grep -rE --include='*.[ch]' --include='*.cu' --include='*.cuh' '^[[:space:]]*#[[:space:]]*include' host kernels)

checked=0
for file in {host,kernels,tests}/**/*.{c,h,cu,cuh} {lua,recipes,tests}/**/*.lua; do
  check_header "$file"
  [[ ${file##*/} != *util* ]] || fault "$file: no utils: name the subject"
  checked=$((checked + 1))
done
[ $checked -gt 0 ] || fault "nothing to check in $PWD"

while IFS= read -r line; do
  fault "$line: unfinished by its own words"
done < <(grep -rnowE --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.lua' 'TODO|FIXME|XXX' \
  host kernels lua recipes tests)

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
