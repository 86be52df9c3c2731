#!/bin/sh
# symbols.sh SOURCE NAME HEADER SHARED STATIC: the shared library exports exactly the functions of cmake/NAME.symbols, each
# with its version node; HEADER declares exactly those outside ATTN_PRIVATE, beside those of attn/base.h; the static library
# defines no name that could meet another program's.
set -eu
source=$1 list=cmake/$2.symbols header=$3 shared=$4 static=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

grep -v '^#' "$source/$list" >"$work/list"
if ! sort -c -u "$work/list"; then
    echo "$list is not sorted, or names a function twice"
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
compare "$(basename "$shared") exports something else than $list" "$work/list" "$work/exported"

# declared_by HEADER: the functions that it and what it includes declare.
declared_by() {
    printf '#include <%s>\n' "$1" | "$CC" -E -P -x c "-I$source/include" - | tr '\n' ' ' | tr ';' '\n' |
        grep 'visibility("default")' | sed 's/.*visibility("default")[ )]*//; s/(.*//; s/.*[ *]\(attn_[a-z0-9_]*\) *$/\1/' |
        sort
}
grep -v '^ATTN_PRIVATE ' "$work/list" | sed 's/.* //' | sort >"$work/public"
declared_by "$header" >"$work/declared"
if test "$list" != cmake/attn.symbols; then
    declared_by attn/base.h >"$work/base"
    comm -23 "$work/declared" "$work/base" >"$work/own"
    mv "$work/own" "$work/declared"
fi
compare "$header declares something else than $list" "$work/public" "$work/declared"

if "$NM" -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | grep -Ev '^_?attn_' | grep -v '^_*\(asan\|odr_asan\)'; then
    echo "the static library defines the global names above, without the prefix attn_"
    failed=1
fi
echo "$(wc -l <"$work/exported") exported functions"
exit $failed
