#!/usr/bin/env bash
# emulated.sh ISA CPU PROGRAM: a test of the kernels of ISA on an emulated processor that has no more than those need.
# Without an emulator (Debian: qemu-user-static) it is skipped: status 77.
set -euo pipefail
isa=$1 cpu=$2 program=$3
emulator=$(command -v qemu-x86_64-static || command -v qemu-x86_64 || true)
if [ -z "$emulator" ]; then
  echo "skipped: kernels for $isa on an emulated $cpu need qemu-user-static"
  exit 77
fi
# qemu names each feature of the model that it cannot emulate, one a line: none of these is used.
LTRAIN_ISA=$isa exec "$emulator" -cpu "$cpu" "$program" 2> >(grep -v "^qemu.*warning: TCG doesn't support requested feature" >&2)
