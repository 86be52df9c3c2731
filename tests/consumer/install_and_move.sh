#!/bin/sh
# install_and_move.sh BUILD SOURCE MOVED: installs the build tree, moves the result to MOVED and makes sure that nothing
# in it remembers where it was built or first installed.
set -eu
build=$1 source=$2 moved=$3
first=$WORK/installed-first

rm -rf "$first" "$moved"
"$CMAKE" --install "$build" --prefix "$first" --config "$CONFIGURATION" >"$WORK/install.log"
mv "$first" "$moved"

for file in include/attn/attn.h "$LIBDIR/libattn.so" "$LIBDIR/libattn.a" "$LIBDIR/pkgconfig/attn.pc" \
    "$LIBDIR/cmake/attn/attnConfig.cmake" "$LIBDIR/cmake/attn/attnConfigVersion.cmake"; do
    if ! test -e "$moved/$file"; then
        echo "not installed: $file"
        exit 1
    fi
done
for place in "$build" "$source" "$first"; do
    if grep -rlF "$place" "$moved" --include='*.cmake' --include='*.pc' --include='*.h'; then
        echo "the files above hold the path $place"
        exit 1
    fi
done
if readelf -d "$moved/$LIBDIR/libattn.so" | grep -E 'RPATH|RUNPATH'; then
    echo "libattn.so holds a run path"
    exit 1
fi
