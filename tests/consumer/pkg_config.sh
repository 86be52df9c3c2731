#!/bin/sh
# pkg_config.sh shared|static PREFIX: builds and runs the C caller with the flags of an installed tree's attn.pc.
set -eu
kind=$1 prefix=$2
here=$(dirname "$0")
program=$WORK/pkg_config-$kind
export PKG_CONFIG_PATH="$prefix/$LIBDIR/pkgconfig"

rm -f "$program"
if test "$kind" = static; then
    # -lattn would take the shared library where both stand side by side.
    libraries=$("$PKG_CONFIG" --static --libs attn | sed 's/-lattn /-l:libattn.a /')
else
    libraries=$("$PKG_CONFIG" --libs attn)
fi
# shellcheck disable=SC2046,SC2086 # lists of flags
"$CC" -std=c99 $("$PKG_CONFIG" --cflags attn) "$here/../examples/caller.c" -o "$program" $libraries -lm

needs=$(readelf -d "$program" | grep -c 'NEEDED.*libattn' || true)
if test "$kind" = static; then
    test "$needs" = 0 || { echo "the static program loads libattn.so"; exit 1; }
    "$program"
else
    test "$needs" = 1 || { echo "the shared program does not load libattn.so"; exit 1; }
    LD_LIBRARY_PATH="$prefix/$LIBDIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$program"
fi
