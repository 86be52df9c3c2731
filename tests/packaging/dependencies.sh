#!/bin/sh
# dependencies.sh SHARED: libattn.so needs a BLAS library and the C and OpenMP run-times, no LAPACK and no Fortran.
set -eu
shared=$1
readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >&2
others=$(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -Ev '^(libopenblas|libblis|libmkl_rt|libcblas|libblas|libgomp|libomp|libiomp5|libm|libc|libpthread|ld-linux[a-z0-9-]*)\.so' || true)
if test -n "$others"; then
    echo "libattn.so needs $others"
    exit 1
fi
