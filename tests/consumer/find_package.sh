#!/bin/sh
# find_package.sh COMPONENT LANGUAGE PREFIX: builds and runs the consumer project with one library of an installed tree.
set -eu
component=$1 language=$2 prefix=$3
here=$(dirname "$0")
build=$WORK/find_package-$component-$language

rm -rf "$build"
set -- -S "$here/project" -B "$build" "-DCMAKE_PREFIX_PATH=$prefix" "-DCONSUMER_COMPONENT=$component" \
    "-DCONSUMER_LANGUAGE=$language" "-DCMAKE_BUILD_TYPE=$CONFIGURATION"
if test "$language" = CXX; then
    set -- "$@" "-DCMAKE_CXX_COMPILER=$CXX"
else
    set -- "$@" "-DCMAKE_C_COMPILER=$CC"
fi
"$CMAKE" "$@"
"$CMAKE" --build "$build"
"$build/consumer"
