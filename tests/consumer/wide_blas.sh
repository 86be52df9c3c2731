#!/bin/sh
# wide_blas.sh SOURCE HEADER: an OpenBLAS whose header speaks of 64-bit integers is refused when libattn is configured.
set -eu
source=$1 header=$2
work=$WORK/wide_blas

rm -rf "$work"
mkdir -p "$work/include"
printf '#define OPENBLAS_USE64BITINT 1\nint cblas_sgemm();\nenum { CblasRowMajor, CblasNoTrans };\n' >"$work/include/$header"
if "$CMAKE" -S "$source" -B "$work/build" -DATTN_BLAS=openblas "-DATTN_OPENBLAS_INCLUDE_DIR=$work/include" \
    "-DCMAKE_C_COMPILER=$CC" -DATTN_BUILD_TESTS=OFF -DATTN_BUILD_BENCH=OFF >"$work/log" 2>&1; then
    echo 'an ILP64 library was taken'
    exit 1
fi
tr -s ' \n' '  ' <"$work/log" | grep -q 'has 64-bit integers (ILP64), but libattn needs' || { cat "$work/log"; exit 1; }
