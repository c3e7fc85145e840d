# shellcheck shell=bash disable=SC2034,SC2154
# .setup.sh: what tests/run and recipes/run share: install what is missing, configure, build.
# Sourced, never run; expects `set -euo pipefail` and the caller's $root. Asks apt only when something is missing.

lt_packages_build="cmake ninja-build make gcc libc6-dev pkg-config libluajit-5.1-dev libjansson-dev libopenblas-openmp-dev
  libedit-dev"
lt_packages_test="lua-busted libopenmpi-dev openmpi-bin"
lt_packages_threads="clang libomp-dev"

lt_say() { printf '== %s\n' "$*"; }
lt_die() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }

# Install those of the named Debian packages that are missing; as root, or through sudo.
lt_install() {
  local package missing=() as=()
  command -v dpkg-query > /dev/null || { lt_say "not a Debian system: CMake will name what is missing"; return 0; }
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || lt_die "missing packages: ${missing[*]}
  Neither root nor sudo here; as root: apt-get install ${missing[*]}"
    as=(sudo)
  fi
  lt_say "installing ${missing[*]}"
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq || lt_die "apt-get update failed; needed: ${missing[*]}"
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null ||
    lt_die "apt-get could not install: ${missing[*]}"
}

# lt_configure DIR [cmake arguments]: configure DIR; shows what was found, or everything when it fails.
lt_configure() {
  local dir=$1 generator=() output
  shift
  mkdir -p "$dir"
  [ -f "$dir/CMakeCache.txt" ] || generator=(-G Ninja)
  output=$(cmake -S "$root" -B "$dir" "${generator[@]}" "$@" 2>&1) || { printf '%s\n' "$output" >&2; return 1; }
  sed -n '/^-- ltrain/,/^-- Conf/{/^-- Conf/!p}' <<< "$output"
}

# lt_build DIR [target]: build with all cores.
lt_build() {
  local dir=$1
  shift
  cmake --build "$dir" -j "$(nproc)" ${1:+--target "$1"}
}
