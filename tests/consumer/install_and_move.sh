#!/bin/sh
# install_and_move.sh BUILD SOURCE MOVED LIBRARY...: installs the build tree, moves the result to MOVED and makes sure that
# nothing in it remembers where it was built or first installed. LIBRARY is attn or attn_weights: each has its files.
set -eu
build=$1 source=$2 moved=$3
shift 3
first=$WORK/installed-first

rm -rf "$first" "$moved"
"$CMAKE" --install "$build" --prefix "$first" --config "$CONFIGURATION" >"$WORK/install.log"
mv "$first" "$moved"

require() {
    for file in "$@"; do
        if ! test -e "$moved/$file"; then
            echo "not installed: $file"
            exit 1
        fi
    done
}
test -n "$(find "$moved/share/doc" -name LICENSE)" || { echo 'not installed: LICENSE'; exit 1; }
require include/attn/attn.h "$LIBDIR/cmake/attn/attnConfig.cmake" "$LIBDIR/cmake/attn/attnConfigVersion.cmake"
for library in "$@"; do
    require "$LIBDIR/lib$library.so" "$LIBDIR/lib$library.a" "$LIBDIR/pkgconfig/$library.pc"
    if readelf -d "$moved/$LIBDIR/lib$library.so" | grep -E 'RPATH|RUNPATH'; then
        echo "lib$library.so holds a run path"
        exit 1
    fi
done
# A header without its library would promise too much.
case " $* " in
*' attn_weights '*) require include/attn/weights.h ;;
*) test ! -e "$moved/include/attn/weights.h" || { echo 'installed without its library: attn/weights.h'; exit 1; } ;;
esac
# The program finds its library and its shapes from where it stands.
if test -e "$moved/bin/attn-bench"; then
    require share/man/man1/attn-bench.1
    env -u LD_LIBRARY_PATH "$moved/bin/attn-bench" list >"$WORK/list.log"
    grep -q '^  llama-7b: ' "$WORK/list.log" || { echo 'attn-bench does not find its shapes'; exit 1; }
fi
for place in "$build" "$source" "$first"; do
    if grep -rlF "$place" "$moved" --include='*.cmake' --include='*.pc' --include='*.h'; then
        echo "the files above hold the path $place"
        exit 1
    fi
done
