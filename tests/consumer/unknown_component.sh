#!/bin/sh
# unknown_component.sh PREFIX: find_package() of a component that there is not fails, and says which there are.
set -eu
prefix=$1
project=$WORK/unknown_component

rm -rf "$project"
mkdir -p "$project"
cat >"$project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(unknown LANGUAGES C)
find_package(attn CONFIG REQUIRED COMPONENTS attn attn_weigths)
EOF
if "$CMAKE" -S "$project" -B "$project/build" "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_COMPILER=$CC" >"$project/log" 2>&1; then
    echo 'a component that there is not was found'
    exit 1
fi
tr -s ' \n' '  ' <"$project/log" | grep -q '"attn_weigths" is no component of attn: attn, attn_static' || { cat "$project/log"; exit 1; }
