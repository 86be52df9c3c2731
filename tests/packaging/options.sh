#!/bin/sh
# options.sh SOURCE WORK: values of build options that are none are refused when libattn is configured, in a sentence that
# says which there are; those that CMake takes for ON and OFF go.
set -eu
source=$1 work=$2
failed=0

rm -rf "$work"
mkdir -p "$work"
# configure OPTION: into the same folder, so that the compiler is looked at once
configure() {
    "$CMAKE" -S "$source" -B "$work/build" -U 'ATTN_*' "-DCMAKE_C_COMPILER=$CC" \
        -DATTN_BUILD_TESTS=OFF -DATTN_BUILD_BENCH=OFF "$@" >"$work/log" 2>&1
}
# refused OPTION WORDS
refused() {
    if configure "-D$1"; then
        echo "-D$1 was accepted"
        failed=1
    elif ! tr -s ' \n' '  ' <"$work/log" | grep -qF "$2"; then
        echo "-D$1: no \"$2\" in:"
        cat "$work/log"
        failed=1
    fi
}
for option in ATTN_BUILD_TESTS ATTN_BUILD_BENCH ATTN_OPENMP ATTN_WERROR; do
    refused $option=maybe "$option is \"maybe\", but must be ON or OFF"
done
refused ATTN_WEIGHTS=maybe 'ATTN_WEIGHTS is "maybe", but must be auto, ON or OFF'
refused ATTN_WEIGHTS=AUTO 'ATTN_WEIGHTS is "AUTO", but must be auto, ON or OFF'
refused ATTN_BLAS=atlas 'ATTN_BLAS is "atlas", but must be auto, openblas, blis, mkl or netlib'
refused ATTN_SANITIZE=adress 'ATTN_SANITIZE is "adress", but this compiler has no -fsanitize=adress'
refused CMAKE_BUILD_TYPE=Relase 'CMAKE_BUILD_TYPE is "Relase", but must be Debug, Release, RelWithDebInfo, MinSizeRel or one'
for type in None Release; do # and so that the next has a type again
    configure -DCMAKE_BUILD_TYPE=$type || {
        cat "$work/log"
        failed=1
    }
done
configure -DATTN_WEIGHTS=no -DATTN_OPENMP=1 -DATTN_WERROR=Yes || {
    cat "$work/log"
    failed=1
}
exit $failed
