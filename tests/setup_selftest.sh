#!/usr/bin/env bash
# tests/setup_selftest.sh: the set-up and the build refuse well: what is missing is named, all at once, with its package.
# usage: setup_selftest.sh ROOT. Package commands are played by small programs in a folder of their own: nothing is installed.
set -euo pipefail
root=$(readlink -f "${1:?usage: setup_selftest.sh ROOT}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { printf 'failed: %s\n' "$1" >&2; exit 1; }
play() { printf '#!/bin/bash\n%s\n' "$2" > "$work/bin/$1"; chmod +x "$work/bin/$1"; }

# install USER-ID: lt_install of three packages of which alpha is there, in a world of played programs.
install_in_play() {
  play id "echo $1"
  : > "$work/calls"
  PATH=$work/bin bash -c 'set -euo pipefail; . "$1/.setup.sh"; lt_install alpha beta gamma' run "$root" > "$work/out" 2>&1
}

mkdir "$work/bin"
ln -s "$(command -v env)" "$(command -v bash)" "$work/bin/"
play dpkg-query '[ "$4" = alpha ] && echo -n installed'
play apt-get "echo \"\$*\" >> $work/calls"

install_in_play 0 || fail "root can install"
[ "$(grep -c . "$work/calls")" -eq 2 ] || fail "update and install are called once each"
grep -q 'install .* beta gamma$' "$work/calls" || fail "only what is missing is installed: $(cat "$work/calls")"

if install_in_play 1000; then fail "neither root nor sudo must fail"; fi
grep -q 'as root: apt-get install beta gamma' "$work/out" || fail "the message says what to do: $(cat "$work/out")"
[ ! -s "$work/calls" ] || fail "apt-get was called without the right to"

play sudo "echo sudo >> $work/calls; exec \"\$@\""
install_in_play 1000 || fail "sudo can install"
[ "$(grep -c '^sudo$' "$work/calls")" -eq 2 ] || fail "sudo was not used"

play apt-get 'exit 100'
if install_in_play 0; then fail "a failing apt-get must fail"; fi
grep -q 'beta gamma' "$work/out" || fail "a failing apt-get names the packages"

play dpkg-query 'echo -n installed'
play apt-get "echo called >> $work/calls"
install_in_play 1000 || fail "nothing is missing"
if [ -s "$work/calls" ] || [ -s "$work/out" ]; then fail "nothing is missing, yet something was done"; fi

# The build itself: every missing package in one message.
if PKG_CONFIG_LIBDIR=$work cmake -S "$root" -B "$work/a" -DLT_TESTS=OFF -DLT_MPI=OFF \
  -DCMAKE_IGNORE_PATH="$(echo /usr/lib/*/openblas-openmp)" > "$work/out" 2>&1; then
  fail "missing libraries must fail"
fi
for package in libluajit-5.1-dev libjansson-dev libopenblas-openmp-dev; do
  grep -q "^ *apt-get install .*$package" "$work/out" || fail "$package is not named: $(cat "$work/out")"
done

if cmake -S "$root" -B "$work/b" -DLT_BUILD=fast > "$work/out" 2>&1; then fail "an unknown LT_BUILD must fail"; fi
grep -q 'LT_BUILD=fast' "$work/out" || fail "the unknown build is named"
grep -q 'release, debug, asan, tsan, cuda' "$work/out" || fail "the known builds are listed"
echo "ok"
