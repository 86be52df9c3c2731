#!/bin/sh
# symbols.sh SOURCE SHARED STATIC: the shared library exports exactly the functions of cmake/attn.symbols, each with its
# version node; the public headers declare exactly those outside ATTN_PRIVATE; the static library defines no name that
# could meet another program's.
set -eu
source=$1 shared=$2 static=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

grep -v '^#' "$source/cmake/attn.symbols" >"$work/list"
if ! sort -c -u "$work/list"; then
    echo "cmake/attn.symbols is not sorted, or names a function twice"
    failed=1
fi

# compare WHAT FILE FILE
compare() {
    if ! diff -u "$2" "$3" >"$work/difference"; then
        echo "$1 (- expected, + found):"
        grep '^[-+][^-+]' "$work/difference"
        failed=1
    fi
}

# "address T name@@node" becomes "node name"; lines of type A are the nodes themselves.
"$NM" -D --defined-only --with-symbol-versions "$shared" | awk '$2 != "A" { print $3 }' |
    sed 's/\([^@]*\)@*\(.*\)/\2 \1/' | sort >"$work/exported"
compare "libattn.so exports something else than cmake/attn.symbols" "$work/list" "$work/exported"

grep -v '^ATTN_PRIVATE ' "$work/list" | sed 's/.* //' | sort >"$work/public"
printf '#include <attn/attn.h>\n' | "$CC" -E -P -x c "-I$source/include" - | tr '\n' ' ' | tr ';' '\n' |
    grep 'visibility("default")' | sed 's/.*visibility("default")[ )]*//; s/(.*//; s/.*[ *]\(attn_[a-z0-9_]*\) *$/\1/' |
    sort >"$work/declared"
compare "the headers declare something else than cmake/attn.symbols" "$work/public" "$work/declared"

if "$NM" -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | grep -Ev '^_?attn_' | grep -v '^_*\(asan\|odr_asan\)'; then
    echo "the static library defines the global names above, without the prefix attn_"
    failed=1
fi
echo "$(wc -l <"$work/exported") exported functions"
exit $failed
