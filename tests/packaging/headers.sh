#!/bin/sh
# headers.sh INCLUDE: every public header compiles alone, as C99, C11 and C++, without a warning, and pulls in neither
# cblas.h nor lapacke.h.
set -eu
include=$1
source=$(mktemp)
trap 'rm -f "$source"' EXIT
warnings='-Wall -Wextra -Wshadow -Wpedantic -Werror'
failed=0

# check HEADER COMPILER LANGUAGE STANDARD
check() {
    # shellcheck disable=SC2086 # a list of flags
    if ! "$2" $warnings -x "$3" "-std=$4" "-I$include" -fsyntax-only "$source"; then
        echo "$1 does not compile alone as $4"
        failed=1
    fi
}

count=0
for path in "$include"/attn/*.h; do
    header=attn/$(basename "$path")
    count=$((count + 1))
    # Twice, to see that its guard works.
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$source"
    check "$header" "$CC" c c99
    check "$header" "$CC" c c11
    if test -n "$CXX"; then
        check "$header" "$CXX" c++ c++11
        check "$header" "$CXX" c++ c++17
    fi
    if "$CC" -x c -std=c11 "-I$include" -M "$source" | grep -E '(cblas|lapacke)[a-z_]*\.h'; then
        echo "$header includes the header above"
        failed=1
    fi
done
test -n "$CXX" || echo "not checked as C++: no C++ compiler"
echo "$count headers"
test "$count" -gt 0 || failed=1
exit $failed
