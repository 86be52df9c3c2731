#!/bin/sh
# readme.sh SOURCE BUILD PREFIX LIBDIR: what README.md tells people to type works. It looks at the fenced blocks:
#
#   ```c       a program (a block with "int main") becomes example.c
#   ```cmake   goes into a project whose program "example" is made of example.c; it is built and run
#   ```sh      every line is a command that check_command() below knows how to check; those that compile or run the
#              example are run, against the installed tree
#   ```output  is exactly what the example prints
#
# Other blocks are not looked at.
set -eu
source=$1 build=$2 prefix=$3 libdir=$4
readme=$source/README.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
export LD_LIBRARY_PATH="$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

if ! test -e "$readme"; then
    echo 'skipped: no README.md'
    exit 77
fi

complain() {
    printf '%s\n' "$*"
    failed=1
}

# blocks LANGUAGE: all blocks of one language, one after the other.
blocks() {
    awk -v fence="\`\`\`$1" '/^```/ { inside = ($0 == fence); next } inside' "$readme"
}

# check_command WORD...: a line of a ```sh block, split into words at blanks.
check_command() {
    case "$1 ${2:-}" in
    'sh cmake/run.sh')
        # Packages may be missing on this machine: that is no fault of the README.
        (cd "$source" && "$@" --dry-run) || complain "fails: $*"
        ;;
    'cmake --preset')
        (cd "$source" && "$CMAKE" --list-presets) | grep -qF "\"$3\"" || complain "no such preset: $*"
        ;;
    'cmake --build' | 'cmake --install' | 'ctest '*) ;;
    'cmake '*)
        for word in "$@"; do
            case $word in
            -DATTN_*)
                option=${word#-D}
                grep -q "^${option%%=*}:" "$build/CMakeCache.txt" || complain "no such option: $word"
                ;;
            esac
        done
        ;;
    'cc '* | 'gcc '* | './example '*) (cd "$work" && eval "$line") || complain "fails: $line" ;;
    *attn-bench\ *)
        for word in "$@"; do
            case $word in
            --*) "$build/bench/attn-bench" --help | grep -qe "$word" || complain "attn-bench --help lacks $word: $line" ;;
            esac
        done
        ;;
    'gnuplot '*)
        for word in "$@"; do
            case $word in
            *.gp) test -e "$source/$word" || complain "no such file: $line" ;;
            esac
        done
        ;;
    'git clone' | 'cd '*) ;;
    *) complain "a command that tests/packaging/readme.sh does not know how to check: $line" ;;
    esac
}

blocks c >"$work/c"
if grep -q 'int main' "$work/c"; then
    cp "$work/c" "$work/example.c"
else
    complain 'README.md has no C example'
fi

blocks sh | sed 's/[[:space:]]*#.*//; s/^\$ //' >"$work/sh"
count=0
while read -r line; do
    if test -n "$line"; then
        count=$((count + 1))
        # shellcheck disable=SC2086 # words
        set -f && set -- $line && set +f
        check_command "$@" </dev/null
    fi
done <"$work/sh"
echo "$count commands"
test -x "$work/example" || complain 'no command of README.md makes the program example'

blocks output >"$work/output"
if test -s "$work/output" && test -x "$work/example"; then
    "$work/example" | diff -u "$work/output" - || complain 'README.md shows another output of the example'
fi

blocks cmake >"$work/cmake"
if test -s "$work/cmake"; then
    {
        printf 'cmake_minimum_required(VERSION 3.21)\nproject(readme C)\nadd_executable(example example.c)\n'
        cat "$work/cmake"
    } >"$work/CMakeLists.txt"
    {
        "$CMAKE" -S "$work" -B "$work/build" "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_COMPILER=$CC" &&
            "$CMAKE" --build "$work/build" && "$work/build/example"
    } || complain 'the CMake block of README.md does not work'
fi
exit $failed
