#!/bin/sh
# dependencies.sh SHARED [WEIGHTS]: libattn.so needs a BLAS library and the C and OpenMP run-times, no LAPACK and no Fortran.
# libattn_weights.so needs libattn.so and LAPACK, libattn.so first: its BLAS library is then found before any other.
set -eu
failed=0

needed() {
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

# check LIBRARY PATTERN: nothing is needed that the pattern does not name.
check() {
    needed "$1" >&2
    others=$(needed "$1" | grep -Ev "^($2)\.so" || true)
    if test -n "$others"; then
        echo "$(basename "$1") needs $others"
        failed=1
    fi
}

blas='libopenblas|libblis|libmkl_rt|libcblas|libblas'
system='libm|libc|libpthread|ld-linux[a-z0-9-]*'
check "$1" "$blas|libgomp|libomp|libiomp5|$system"
if test $# -gt 1; then
    check "$2" "libattn|liblapacke|$blas|$system"
    case $(needed "$2" | grep -E "^(libattn|liblapacke|$blas)" | head -n 1) in
    libattn.so.*) ;;
    *)
        echo "$(basename "$2") needs another library before libattn.so"
        failed=1
        ;;
    esac
fi
exit $failed
