#!/usr/bin/env bash
# tests/embed/install.sh: installs into a folder of its own and uses what lies there, and nothing else: the header alone,
# both programs of host/EMBED.md against both libraries, the command, after the folder was moved.
# usage: install.sh SOURCE BUILD CMAKE CC CXX [flags …]   (CXX may be empty: then C++ is left out, and said so)
set -euo pipefail
source=$1 build=$2 cmake=$3 cc=$4 cxx=$5
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install: $1" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$work/first" > "$work/log" || { cat "$work/log"; fail "cmake --install"; }
mv "$work/first" "$work/moved" # nothing may know where it was put
prefix=$work/moved
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ltrain.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir ltrain)
[ "$(pkg-config --modversion ltrain)" = "$("$prefix/bin/ltrain-lua" -e 'lt.version')" ] || fail "versions differ"
read -ra cflags < <(pkg-config --cflags ltrain)
warnings=(-Wall -Wextra -pedantic -Werror)

# The header by itself.
printf '#include <ltrain.h>\nint main(void) { return 0; }\n' > "$work/alone.c"
"$cc" -std=c11 "${warnings[@]}" "${cflags[@]}" -fsyntax-only "$work/alone.c"
[ -z "$cxx" ] || "$cxx" -std=c++17 "${warnings[@]}" "${cflags[@]}" -x c++ -fsyntax-only "$work/alone.c"

# What the library shows is what the header declares.
sed -nE 's/^LT_API .*(lt_[a-z_]+)\(.*/\1/p' "$prefix/include/ltrain.h" | sort > "$work/declared"
nm -D --defined-only "$libdir/libltrain.so" | awk '{ print $3 }' | grep -v '^__\|^_init$\|^_fini$\|^_edata$\|^_end$' \
  | sort > "$work/exported"
[ "$(wc -l < "$work/declared")" -ge 20 ] || fail "the header declares almost nothing"
diff "$work/declared" "$work/exported" || fail "libltrain.so exports something else than ltrain.h declares"

# The programs of the page, as they stand there.
extract() { awk -v fence='```'"$1" '$0 == fence { on = 1; next } $0 == "```" { on = 0 } on' "$source/host/EMBED.md"; }
extract c > "$work/embed.c"
extract cpp > "$work/feed.cpp"
mkdir "$work/text"
for i in 1 2 3 4 5 6 7 8; do
  for k in $(seq 1 60); do printf 'int x%d = %d;\n' $(((i * k) % 7)) $((k % 5)); done > "$work/text/$i.txt"
done

run_embed() { # PROGRAM
  local said
  said=$(cd "$work/text" && rm -rf saves && "$1") || fail "$1: status $?"
  [[ $said == *"found again: every bit"* ]] || fail "$1: $said"
  [[ $said == *"step 29 loss"*"lr 0.001"* && $said == *"lm_head.weight is f32 [256, 32]"* ]] || fail "$1: $said"
  [[ $said == *"  to position 63: "* ]] || fail "$1: $said"
  awk '$1 == "step" { loss[$2] = $4 } END { exit !(loss[29] < loss[0] - 1) }' <<< "$said" || fail "$1 did not learn: $said"
}

read -ra shared < <(pkg-config --libs ltrain)
read -ra static < <(pkg-config --static --libs ltrain | sed 's/-lltrain/-l:libltrain.a/')
"$cc" -std=c11 "${warnings[@]}" "${cflags[@]}" "$@" "$work/embed.c" -o "$work/embed" "${shared[@]}" "-Wl,-rpath,$libdir"
run_embed "$work/embed"
"$cc" -std=c11 "${warnings[@]}" "${cflags[@]}" "$@" "$work/embed.c" -o "$work/embed-static" "${static[@]}"
run_embed "$work/embed-static"
if [ -n "$cxx" ]; then
  "$cxx" -std=c++17 "${warnings[@]}" "${cflags[@]}" "$@" "$work/feed.cpp" -o "$work/feed" "${shared[@]}" "-Wl,-rpath,$libdir"
  said=$("$work/feed") || fail "feed: status $?"
  awk '{ exit !($2 < 0.5) }' <<< "$said" || fail "feed did not learn: $said"
else
  echo "no C++ compiler: feed.cpp was not tried"
fi

# The command, which finds its Lua files where they were moved to.
[ "$("$prefix/bin/ltrain-lua" -e 'package.path:match("[^;]*ltrain/lua")')" != "" ] || fail "the command reads other Lua files"
echo "ok installed, moved, used"
