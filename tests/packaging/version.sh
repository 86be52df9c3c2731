#!/bin/sh
# version.sh SOURCE BUILD SHARED...: the version of include/attn/base.h is that of the library files, their sonames, the .pc
# files, the CMake package, the newest node of the symbol lists and the newest entry of the change log.
set -eu
source=$1 build=$2
shift 2
failed=0

part() {
    sed -n "s/^#define ATTN_VERSION_$1 \([0-9]*\)\$/\1/p" "$source/include/attn/base.h"
}
minor=$(part MAJOR).$(part MINOR)
version=$minor.$(part PATCH)
echo "include/attn/base.h: $version"

# expect WHAT EXPECTED FOUND
expect() {
    if test "$2" != "$3"; then
        echo "$1: expected \"$2\", found \"$3\""
        failed=1
    fi
}
for shared in "$@"; do
    name=$(basename "$shared" ".so.$version")
    pc=${name#lib}.pc
    symbols=cmake/${name#lib}.symbols
    expect "file name" "$name.so.$version" "$(basename "$shared")"
    expect "soname" "$name.so.$minor" "$(readelf -d "$shared" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
    expect "$pc" "$version" "$(sed -n 's/^Version: //p' "$build/$pc")"
    expect "newest node of $symbols" "ATTN_$minor" \
        "$(sed -n 's/^\(ATTN_[0-9.]*\) .*/\1/p' "$source/$symbols" | sort -V | tail -n 1)"
done
expect "CMake package" "$version" "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/attnConfigVersion.cmake")"
if test -e "$source/CHANGELOG.md"; then
    expect "CHANGELOG.md" "$version" "$(sed -n 's/^## \[*\([0-9][0-9.]*\).*/\1/p' "$source/CHANGELOG.md" | head -n 1)"
fi
exit $failed
