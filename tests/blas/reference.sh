#!/bin/sh
# reference.sh LIBRARY PROGRAM...: programs linked to libopenblas.so.0 run with the reference CBLAS in its place, which
# libattn does not know by name. Each checks its own result; the first prints the library's line.
set -eu
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$library" "$work/libopenblas.so.0"
export LD_LIBRARY_PATH="$work"
"$1" >"$work/line"
cat "$work/line"
grep -q ', unknown CBLAS' "$work/line"
shift
for program in "$@"; do
    "$program"
done
