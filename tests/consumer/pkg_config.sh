#!/bin/sh
# pkg_config.sh MODULE shared|static|all-static PREFIX: builds and runs an example in C with the flags of an installed tree's MODULE.pc:
# attn, or attn_weights, which brings attn with it.
set -eu
module=$1 kind=$2 prefix=$3
examples=$(dirname "$0")/../examples
program=$WORK/pkg_config-$module-$kind
export PKG_CONFIG_PATH="$prefix/$LIBDIR/pkgconfig"

case $module in
attn) source=$examples/caller.c libraries=1 ;;
attn_weights) source=$examples/effective_rank.c libraries=2 ;;
esac
rm -f "$program"
if test "$kind" = all-static; then
    flags="$("$PKG_CONFIG" --static --libs "$module") -static"
    for archive in libopenblas.a liblapacke.a libgfortran.a libgomp.a; do
        test -e "$("$CC" -print-file-name=$archive)" || { echo "skipped: no $archive"; exit 77; }
    done
elif test "$kind" = static; then
    # -lattn would take the shared library where both stand side by side.
    flags=$("$PKG_CONFIG" --static --libs "$module" | sed 's/-l\(attn[a-z_]*\) /-l:lib\1.a /g')
else
    flags=$("$PKG_CONFIG" --libs "$module")
fi
# shellcheck disable=SC2046,SC2086 # lists of flags
"$CC" -std=c99 $("$PKG_CONFIG" --cflags "$module") "$source" -o "$program" $flags -lm

case "$kind:${DL_LIBS:+ -l$DL_LIBS }" in
shared:* | *:) ;;
*)
    case " $flags " in
    *" -l$DL_LIBS "*) ;;
    *) echo "the flags of a static link lack -l$DL_LIBS"; exit 1 ;;
    esac
    ;;
esac
needs=$(readelf -d "$program" | grep -c 'NEEDED.*libattn' || true)
if test "$kind" != shared; then
    test "$needs" = 0 || { echo "the static program loads libattn.so"; exit 1; }
    "$program"
else
    test "$needs" = "$libraries" || { echo "the shared program loads $needs of the libraries, not $libraries"; exit 1; }
    LD_LIBRARY_PATH="$prefix/$LIBDIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$program"
fi
