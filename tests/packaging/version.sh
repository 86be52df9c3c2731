#!/bin/sh
# version.sh SOURCE BUILD SHARED: the version of include/attn/base.h is that of the library file, its soname, attn.pc, the
# CMake package and the newest entry of the change log.
set -eu
source=$1 build=$2 shared=$3
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
expect "file name" "libattn.so.$version" "$(basename "$shared")"
expect "soname" "libattn.so.$minor" "$(readelf -d "$shared" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
expect "attn.pc" "$version" "$(sed -n 's/^Version: //p' "$build/attn.pc")"
expect "CMake package" "$version" "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/attnConfigVersion.cmake")"
expect "newest node of cmake/attn.symbols" "ATTN_$minor" \
    "$(sed -n 's/^\(ATTN_[0-9.]*\) .*/\1/p' "$source/cmake/attn.symbols" | sort -V | tail -n 1)"
if test -e "$source/CHANGELOG.md"; then
    expect "CHANGELOG.md" "$version" "$(sed -n 's/^## \[*\([0-9][0-9.]*\).*/\1/p' "$source/CHANGELOG.md" | head -n 1)"
fi
exit $failed
