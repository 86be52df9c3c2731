#!/bin/sh
# One command that does everything on a bare Debian or Ubuntu machine, packages included. See usage() below.
# Works from any folder, as root or with sudo, with or without a terminal.
set -eu
cd "$(dirname "$0")/.."

usage() {
    cat <<END
sh cmake/run.sh bench [options] [-- arguments of attn-bench]
    builds libattn and attn-bench and runs the bench: by default its sweep, naive against BLAS
sh cmake/run.sh test [options]
    builds and tests: gcc and clang, both OpenBLAS flavours, several instruction sets, sanitizers, valgrind, style
sh cmake/run.sh help
    this text

Options
    --no-install  install no package; print what is missing and exit with 1
    --dry-run     print what would be done
    --slow        test: the slow tests too, and every combination
    --help        this text
CMAKE_BUILD_PARALLEL_LEVEL in the environment is the number of jobs, by default one per processor.
ATTN_CASES_DIR in the environment names the folder of ONNX conformance cases, for the tests that read it.
END
}

# ---- What is needed ------------------------------------------------------------------------------------------------

# package, or package:command where the command will do, wherever it comes from.
build_packages='gcc:gcc libc6-dev make:make cmake:cmake libopenblas-dev libjansson-dev'
bench_packages="$build_packages gnuplot-nox:gnuplot"
test_packages="$build_packages g++:g++ gfortran:gfortran python3:python3 python3-numpy pkg-config:pkg-config liblapacke-dev
    libopenblas0-pthread libopenblas0-openmp libcmocka-dev clang:clang libomp-dev valgrind:valgrind libc6-dbg
    clang-format:clang-format clang-tidy:clang-tidy"
machine=$(uname -m)
test "$machine" != x86_64 || test_packages="$test_packages
    gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc libc6-dev-arm64-cross"

# ---- What the tests run --------------------------------------------------------------------------------------------

# One run of ctest per line. Any two of OpenBLAS flavour, instruction set, threads and named BLAS core meet in some line; the
# test packaging.runs sees to it. The cores are what libattn makes a difference between: Prescott leaves vectors of the CPU
# unused, Haswell packs all that it multiplies, SkylakeX has small products for tiles and some projections, Cooperlake for
# all; auto, which OpenBLAS chooses, is one of them or like one: what users have. valgrind knows no AVX-512.
# The twelve pairs of instruction set and named core take twelve lines, so that fewer would lose something.
# preset, labels, OpenBLAS flavour, ATTN_MAX_ISA (best: not set), OMP_NUM_THREADS, OPENBLAS_CORETYPE (auto: not set), entries:
# a word that choose_entries explains; with --slow it is all in every line
usual_runs='
test      full        pthread  best     2  Prescott    float
test      quick       pthread  best     2  auto        own
test      quick       pthread  best     2  auto        unit
test      quick       openmp   best     4  SkylakeX    line
test      quick       pthread  avx2     1  Cooperlake  line
test      quick       pthread  avx2     1  SkylakeX    line
test      quick       openmp   avx2     4  Prescott    line
test      quick       openmp   generic  2  SkylakeX    line
test      quick       pthread  generic  4  Cooperlake  line
test      quick       pthread  generic  4  Haswell     line
clang     quick       openmp   best     1  Haswell     own
clang     quick       pthread  generic  1  Prescott    line
asan      quick,full  openmp   best     2  Cooperlake  memory
asan      quick       pthread  generic  4  auto        few
valgrind  quick       pthread  avx2     2  Haswell     valgrind
'
slow_runs() {
    echo 'test slow pthread best 2 auto'
    # every flavour with every instruction set: the cores for 1, 2 and 4 threads
    while read -r flavour isa one two four; do
        echo "test quick,full $flavour $isa 1 $one"
        echo "test quick,full $flavour $isa 2 $two"
        echo "test quick,full $flavour $isa 4 $four"
    done <<END
pthread  best     Prescott    auto        Prescott
pthread  avx2     SkylakeX    Haswell     Prescott
pthread  generic  Cooperlake  SkylakeX    auto
openmp   best     Haswell     Cooperlake  SkylakeX
openmp   avx2     auto        Cooperlake  Cooperlake
openmp   generic  Haswell     Prescott    Haswell
END
    echo 'clang quick,full openmp best 4 SkylakeX'
    echo 'asan quick,full openmp generic 2 auto'
    echo 'valgrind quick openmp avx2 4 Prescott'
    echo 'tsan quick pthread best 4 auto'
}

# The instruction sets that entries of each precision are named for, the lowest first.
sets_of_float='generic neon avx2 avx512 amx'
sets_of_double='generic neon avx2 avx512'

# others_of SETS SET: an expression for the sets but the one given, or but the highest where that is none of them.
others_of() {
    its_own=${1##* }
    case " $1 " in
    *" $2 "*) its_own=$2 ;;
    esac
    printf '%s\n' "$1" | tr ' ' '\n' | grep -vx "$its_own" | paste -s -d '|' -
}

# choose_entries WORD SET: which entries a line runs, by two expressions of their names, `only` and `left_out`. SET is the
# instruction set of the line: entries that are named for another one run with that whatever the line says.
choose_entries() {
    others_of_float="\\.f32\\.(.*\\.)?($(others_of "$sets_of_float" "$2"))\$"
    others_of_double="\\.f64\\.(.*\\.)?($(others_of "$sets_of_double" "$2"))\$"
    others="$others_of_float|$others_of_double"
    only=. left_out='^$'
    case $1 in
    all) ;;
    # Double of the other sets, and the longest of them in float too, are the same source once more, for minutes of the
    # oracle.
    float) left_out="$others_of_double|^sdpa\.oracle_thorough$others_of_float" ;;
    own) left_out=$others ;;
    # The matrix unit, which libattn takes only where it is named, as entries do.
    unit) only='\.amx$' ;;
    # What asks the line, of problems every second one: other lines of the same core have the others. Once per build is
    # enough for the rest: test_support and weights.random call no kernel or BLAS, the tests of kernels go through all sets,
    # and those of blas and guard choose flavour, core and set themselves or do not ask which kernels compute.
    line)
        left_out="$others|^(test_support$|kernels_|weights\.(random|guard)\.)"
        left_out="$left_out|^blas\.(core|fork|one_thread|region|restore|two_openmp)\."
        ;;
    # For sanitizers, which see memory and not numbers: what is left out runs longer over what others run too. Packages and
    # the support of tests have none of libattn's memory.
    memory)
        left_out="$others|^test_support$|^packaging\.|^sdpa\.(accuracy|oracle_thorough)\.|^kernels_.*_every_|^chain\..*_sweep\."
        left_out="$left_out|^weights\..*_large\.|^(layer\.random|sdpa\.memory)\.f64|^bench_program_test\.(core|report|sweep)$"
        ;;
    # For sanitizers too: the paths of generic kernels and of the matrix unit.
    few) only='^sdpa\.(course|magnitude|oracle|random|reading)\.f32\.(generic|amx)$' ;;
    # For valgrind, which sees what was never written, many times as slowly and one thread at a time. Double is the source of
    # float; what is left out of the rest is none of libattn's, or has problems like those of sdpa.oracle and chain.product,
    # or takes a minute for LAPACK or for one large problem.
    valgrind)
        left_out="$others|[._]f64|^(test_support$|bench_|blas\.core|weights\.random)|^chain\.(thread|trace)\."
        left_out="$left_out|^sdpa\.(bitwise|concurrency|hidden|memory|property)\."
        left_out="$left_out|^examples\.(arguments|effective_rank|guide|python)$"
        ;;
    esac
}

# ---- Packages ------------------------------------------------------------------------------------------------------

say() {
    printf '%s\n' "$*"
}

# Prints those of the given packages that are not here.
missing_of() {
    for entry in "$@"; do
        package=${entry%%:*}
        command=${entry#"$package"}
        command=${command#:}
        if test -n "$command" && command -v "$command" >/dev/null 2>&1; then
            continue
        fi
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        'install ok installed') ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

as_root() {
    if test "$(id -u)" = 0; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        say "Root is needed for: $*"
        exit 1
    fi
}

all_known() {
    for package in "$@"; do
        case $(apt-cache policy "$package" 2>/dev/null) in
        *'Candidate: (none)'*) return 1 ;;
        *'Candidate: '*) ;;
        *) return 1 ;;
        esac
    done
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# Makes sure that the given packages are here.
provide() {
    if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
        say "This is not Debian or Ubuntu. Needed, under whatever names they have here: $*"
        return
    fi
    missing=$(missing_of "$@")
    if test -z "$missing"; then
        say 'All packages needed are installed.'
    elif test "$install" = no; then
        say "Missing packages: $missing"
        test "$dry_run" = yes || exit 1
    elif test "$dry_run" = yes; then
        say "Would install: $missing"
    else
        say "Installing packages: $missing"
        # shellcheck disable=SC2086 # a list
        {
            all_known $missing || as_root apt-get update
            # Old lists name files that the server no longer has.
            apt_install $missing || { as_root apt-get update && apt_install $missing; }
        }
    fi
}

# ---- Steps ---------------------------------------------------------------------------------------------------------

jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc 2>/dev/null || echo 2)}
logs=build/logs
passed=0 failed=0 skipped=0
failures='' skips=''

now() {
    date +%s
}

# step TITLE COMMAND...: runs a command with its output in a log file, which is shown when it fails.
step() {
    title=$1
    shift
    if test "$dry_run" = yes; then
        say "Would run: $*"
        return
    fi
    mkdir -p $logs
    log=$logs/$(printf '%s' "$title" | tr -c 'A-Za-z0-9' '-').log
    started=$(now)
    if "$@" >"$log" 2>&1 </dev/null; then
        say "$title: done in $(($(now) - started)) s"
    else
        say "$title: FAILED, the end of $log:"
        tail -n 60 "$log"
        return 1
    fi
}

# The folder that ctest runs the tests of a preset in.
tests_of() {
    test "$1" != valgrind || set -- test-valgrind
    echo "build/$1"
}

configure() {
    step "configure $1" cmake --preset "$1" -B "$(tests_of "$1")" "-DATTN_CASES_DIR=${ATTN_CASES_DIR:-}"
}

build() {
    step "build $1" cmake --build --preset "$1" -j "$jobs"
}

# build_all PRESET...: those that were built have a file attn-built. Configuring keeps one processor busy, so all are
# configured side by side.
build_all() {
    configured=
    for preset in "$@"; do
        if test "$dry_run" = yes; then
            configure "$preset"
        else
            rm -f "$(tests_of "$preset")/attn-built"
            configure "$preset" &
            configured="$configured $!"
        fi
    done
    for preset in "$@"; do
        # shellcheck disable=SC2086 # a list, of one fewer each time
        if test "$dry_run" = no && ! { take_first $configured && wait "$first"; }; then
            count_failure "configure $preset"
        elif test "$preset" = valgrind; then
            borrow_programs
        elif ! build "$preset"; then
            count_failure "build $preset"
        elif test "$dry_run" = no; then
            touch "build/$preset/attn-built"
        fi
    done
}
take_first() {
    first=$1
    shift
    configured=$*
}

# valgrind looks at the programs of preset test, which are the code that users get; another build would only add the
# lines to what it finds, and preset valgrind makes that for whoever looks for a fault. The preset still says how each entry
# runs, and the paths of its programs are changed for those of build/test.
borrow_programs() {
    test "$dry_run" = no && test -e build/test/attn-built || return 0
    find build/test-valgrind -name CTestTestfile.cmake -exec sed -i 's,/build/test-valgrind/,/build/test/,g' {} + &&
        touch build/test-valgrind/attn-built
}

count_failure() {
    failed=$((failed + 1))
    failures="$failures
  $1"
}

count_skip() {
    skipped=$((skipped + 1))
    skips="$skips
  $1"
}

# check TITLE COMMAND...: a step that counts as one test.
check() {
    if test "$dry_run" = yes; then
        say "Would check: $1"
    elif step "$@"; then
        passed=$((passed + 1))
    else
        count_failure "$1"
    fi
}

# ---- bench ---------------------------------------------------------------------------------------------------------

run_bench() {
    # shellcheck disable=SC2086 # a list
    provide $bench_packages
    configure bench
    build bench
    program=build/bench/bench/attn-bench
    case ${1:-} in
    '' | -* | sweep)
        test "${1:-}" != sweep || shift
        set -- sweep --report build/results "$@"
        ;;
    esac
    if test "$dry_run" = yes; then
        say "Would run: $program $*"
        return
    fi
    "$program" "$@"
}

# ---- test ----------------------------------------------------------------------------------------------------------

# The folder of one OpenBLAS flavour of Debian, whatever the architecture.
flavour_folder() {
    dpkg-query -L "libopenblas0-$1" 2>/dev/null | sed -n 's,/libopenblas\.so\.0$,,p' | head -n 1
}

cpu_has() {
    sed -n '/^flags/{p;q;}' /proc/cpuinfo 2>/dev/null | grep -qw "$1"
}

# True when this CPU runs what OpenBLAS compiles for a core. OpenBLAS itself takes our word for it.
cpu_runs_core() {
    case $machine.$1 in
    *.auto | x86_64.Prescott) ;;
    x86_64.Haswell) cpu_has avx2 && cpu_has fma ;;
    x86_64.SkylakeX) cpu_has avx512f && cpu_has avx512cd && cpu_has avx512bw && cpu_has avx512dq && cpu_has avx512vl ;;
    x86_64.Cooperlake) cpu_runs_core SkylakeX && cpu_has avx512_bf16 ;;
    *) false ;;
    esac
}

# The core itself, or the next below it that this CPU runs.
core_here() {
    core=$1
    until cpu_runs_core "$core"; do
        case $core in
        Cooperlake) core=SkylakeX ;;
        SkylakeX) core=Haswell ;;
        Haswell) core=Prescott ;;
        *) core=auto ;;
        esac
    done
    echo "$core"
}

# attribute FILE NAME: a number in the first tag of a JUnit file.
attribute() {
    sed -n "s/.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1
}

# Prints "test: reason" for what a JUnit file says was not run, whole tests and cmocka's cases within a test alike.
list_skips() {
    awk '
        /<testcase / { name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name); reason = ""
                       waiting = /status="(notrun|disabled)"/ }
        waiting && /skipped: / { reason = $0; sub(/.*skipped: /, "", reason); sub(/<.*/, "", reason) }
        /\[  SKIPPED \] [A-Za-z]/ { sub(/.*\[  SKIPPED \] /, ""); if (!seen[name, $1]++) print name ": " $1 }
        /<\/testcase>/ { if (waiting) print name (reason == "" ? "" : ": " reason); waiting = 0 }' "$1"
}

# run_ctest PRESET LABELS FLAVOUR ISA THREADS CORE ENTRIES: one line of the table.
run_ctest() {
    preset=$1 labels=$2 flavour=$3 isa=$4 threads=$5 wanted_core=$6 entries=${7:-all}
    test "$slow" = no || entries=all
    core=$(core_here "$wanted_core")
    title="$preset $labels, OpenBLAS $flavour, $isa, $threads threads, core $core"
    if test "$core" != "$wanted_core"; then
        title="$title in place of $wanted_core"
        test "$dry_run" = yes || count_skip "OpenBLAS core $wanted_core: not for this CPU, $core in its place"
    fi
    folder=$(flavour_folder "$flavour")
    if test "$dry_run" = yes; then
        say "Would test: $title, entries: $entries"
        return
    fi
    if test "$entries" = unit && test "$machine" != x86_64; then
        count_skip "$title: no matrix unit on $machine"
        return
    fi
    if test -z "$folder"; then
        count_skip "$title: no such OpenBLAS flavour here"
        return
    fi
    tests=$(tests_of "$preset") programs=build/$preset
    test "$preset" != valgrind || programs=build/test
    if ! test -e "$tests/attn-built"; then
        count_failure "$title: not built"
        return
    fi
    mkdir -p $logs
    log=$logs/$(printf '%s' "$title" | tr -c 'A-Za-z0-9\n' '-')
    started=$(now)
    rm -f "$log.xml"
    set -- -u OPENBLAS_CORETYPE "LD_LIBRARY_PATH=$folder" "OMP_NUM_THREADS=$threads"
    # Threads that wait asleep, since there are more of them than processors and spinning takes from the others; but where
    # OpenBLAS chooses its core, as it is for users.
    test "$core" = auto || set -- "$@" OMP_WAIT_POLICY=passive
    test "$isa" = best || set -- "$@" "ATTN_MAX_ISA=$isa"
    test "$core" = auto || set -- "$@" "OPENBLAS_CORETYPE=$core"
    # What looks at memory takes many times as long: some of the problems are enough. Lines of one core that have every
    # second one differ in whether their threads are an odd number.
    case "$slow $preset" in
    *' valgrind') set -- "$@" ATTN_UNDER_VALGRIND=1 ATTN_ONE_PROBLEM_OF=13 ;;
    'no asan') set -- "$@" ATTN_ONE_PROBLEM_OF=3 ;;
    *) test "$entries" != line || set -- "$@" ATTN_ONE_PROBLEM_OF=2 "ATTN_FIRST_PROBLEM=$threads" ;;
    esac
    env "$@" ldd "$programs/lib/libattn.so" | grep -q "$folder/" || {
        count_failure "$title: libattn.so does not load the library in $folder"
        return
    }
    # libattn 0.1.0, avx2, OpenBLAS 0.3.21 Haswell pthread, ...
    in_use=$(env "$@" "$programs/bench/attn-bench" version | sed -n 's/.*, \([a-z0-9]*\), OpenBLAS [^ ]* \([^ ]*\) .*/\1 \2/p')
    core_in_use=${in_use#* }
    # OpenBLAS goes its own way where it does not know the name, and where it has kernels for one core only.
    if test "$core" = auto; then
        title="$title ($core_in_use)"
    elif test "$core_in_use" != "$core"; then
        count_skip "$title: OpenBLAS computes with $core_in_use"
        title="$title, but OpenBLAS computes with $core_in_use"
    fi
    test "$entries" = all || title="$title, entries: $entries"
    choose_entries "$entries" "${in_use% *}"
    # Where a preset has no times yet, those of test let its longest entries begin first too.
    costs=Testing/Temporary/CTestCostData.txt
    if test -e "build/test/$costs" && ! test -e "$tests/$costs"; then
        mkdir -p "$tests/${costs%/*}"
        cp "build/test/$costs" "$tests/$costs"
    fi
    env "$@" ctest --test-dir "$tests" -L "^($(printf '%s' "$labels" | tr , '|'))\$" -R "$only" -E "$left_out" \
        -j "$jobs" --no-tests=error --output-on-failure --output-junit "$PWD/$log.xml" >"$log.log" 2>&1 </dev/null || true
    if ! test -s "$log.xml"; then
        tail -n 20 "$log.log"
        count_failure "$title: ctest did not run"
        return
    fi

    bad=$(attribute "$log.xml" failures)
    idle=$(($(attribute "$log.xml" skipped) + $(attribute "$log.xml" disabled)))
    good=$(($(attribute "$log.xml" tests) - bad - idle))
    list_skips "$log.xml" >"$log.skips"
    inner=$(($(wc -l <"$log.skips") - idle))
    say "$title: $good passed, $bad failed, $((idle + inner)) skipped in $(($(now) - started)) s"
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + idle + inner))
    while read -r line; do
        skips="$skips
  $preset: $line"
    done <"$log.skips"
    if test "$bad" != 0; then
        failures="$failures
  $title: see $log.log"
        sed -n '/tests failed out of/,$p' "$log.log"
        grep -v 'Passed' "$log.log" | head -n 150
    fi
}

# clang-format leaves comments as they are.
format() {
    find lib include tests bench \( -name '*.[ch]' -o -name '*.cpp' \) -exec clang-format --dry-run -Werror {} + &&
        ! grep -rnE --include='*.[ch]' --include='*.cpp' '^.{121,}' lib include tests bench
}

check_format() {
    case $(clang-format --version 2>/dev/null) in
    *'version 14.'*)
        check 'clang-format' format
        ;;
    *) count_skip 'clang-format: another version than 14 formats differently' ;;
    esac
}

# Once per file, with plain flags: with the build's own it would look at every source in each precision and instruction
# set.
tidy() {
    find lib bench tests -name '*.c' ! -path lib/kernels/parts.c -print0 |
        xargs -0 -n 4 -P "$jobs" sh -c 'clang-tidy --quiet "$@" -- -std=gnu11 \
            -Iinclude -Ilib -Ibench -Itests -Itests/support -DATTN_BUILDING -DATTN_REAL_BITS=32 \
            -DATTN_HAVE_GENERIC -DATTN_KERNEL_ISA_GENERIC -DBENCH_ISA=generic -DBENCH_VECTOR_BYTES=16' sh || return 1
    # The matrix unit has no generic kernels.
    test "$machine" != x86_64 || clang-tidy --quiet lib/kernels/parts.c -- -std=gnu11 -Iinclude -Ilib -DATTN_BUILDING \
        -DATTN_REAL_BITS=32 -DATTN_KERNEL_ISA_AVX512 -DATTN_KERNEL_ISA_AMX -mavx512f -mavx512dq -mavx512bw -mavx512vl \
        -mavx2 -mfma -mamx-tile -mamx-bf16
}

check_tidy() {
    if command -v clang-tidy >/dev/null 2>&1; then
        check 'clang-tidy' tidy
    else
        count_skip 'clang-tidy: not here'
    fi
}

compile_for_arm() {
    cmake --preset aarch64 && cmake --build --preset aarch64 -j "$jobs"
}

run_test() {
    # shellcheck disable=SC2086 # a list
    provide $test_packages
    runs=$usual_runs
    test "$slow" = no || runs="$runs
$(slow_runs)"
    presets='test clang asan valgrind'
    test "$slow" = no || presets="$presets tsan"
    # shellcheck disable=SC2086 # a list
    build_all $presets
    check_format
    check_tidy
    # Elsewhere than on Arm itself nothing else would compile the NEON kernels.
    test "$machine" != x86_64 || check 'compile for aarch64' compile_for_arm
    # Not in a pipe, which would count in a process of its own.
    while read -r preset labels flavour isa threads core entries; do
        test -z "$preset" || run_ctest "$preset" "$labels" "$flavour" "$isa" "$threads" "$core" "$entries"
    done <<END
$runs
END
    test "$dry_run" = no || return 0
    test -z "$skips" || say "Skipped:$(printf '%s\n' "$skips" | sort | uniq -c | sed 's/^ *1 /  /; s/^ *\([0-9][0-9]*\) \(.*\)/  \2 (\1 times)/')"
    test -z "$failures" || say "Failed:$failures"
    say "$passed passed, $failed failed, $skipped skipped"
    test "$failed" = 0
}

# ---- Arguments -----------------------------------------------------------------------------------------------------

command=${1:-help}
test $# = 0 || shift
install=yes dry_run=no slow=no
while test $# -gt 0; do
    case $1 in
    --no-install) install=no ;;
    --dry-run) dry_run=yes ;;
    --slow)
        test "$command" = test || {
            say "--slow: an option of test, not of $command"
            exit 2
        }
        slow=yes
        ;;
    --help | -h)
        usage
        exit 0
        ;;
    --)
        shift
        break
        ;;
    *)
        say "unknown option: $1"
        usage
        exit 2
        ;;
    esac
    shift
done

case $command in
bench) run_bench "$@" ;;
test) run_test ;;
help | --help | -h) usage ;;
*)
    say "unknown command: $command"
    usage
    exit 2
    ;;
esac
