#!/bin/sh
# runs.sh SOURCE: the runs of `cmake/run.sh test` meet all kinds of machines. Of OpenBLAS flavour, instruction set, threads
# and named BLAS core any two values that are there meet in some run; with --slow all flavours, instruction sets and threads do.
# A run of few entries does not count.
set -eu
failed=0
for options in '' --slow; do
    # shellcheck disable=SC2086 # none or one
    sh "$1/cmake/run.sh" test --dry-run $options | awk -F ', ' -v slow="$options" '
        /^Would test: / && !/, entries: (few|unit)$/ {
            runs++
            sub(/core .* in place of /, "core ", $5) # another CPU than this one has it
            for (i = 2; i <= 5; i++) {
                if ($i != "core auto") # one of the others, or like one
                    is_value[i, $i] = 1
                for (j = i + 1; j <= 5; j++)
                    met[$i, $j] = 1
            }
            all_met[$2, $3, $4] = 1
        }
        END {
            for (a in is_value)
                for (b in is_value) {
                    split(a, first, SUBSEP)
                    split(b, second, SUBSEP)
                    if (first[1] < second[1] && !((first[2], second[2]) in met)) {
                        print "never together" (slow == "" ? "" : " with " slow) ": " first[2] " and " second[2]
                        failed = 1
                    }
                    for (c in is_value) {
                        split(c, third, SUBSEP)
                        if (slow != "" && first[1] == 2 && second[1] == 3 && third[1] == 4 &&
                            !((first[2], second[2], third[2]) in all_met)) {
                            print "never together with --slow: " first[2] ", " second[2] ", " third[2]
                            failed = 1
                        }
                    }
                }
            print runs + 0 " runs" (slow == "" ? "" : " with " slow)
            exit failed || runs == 0
        }' || failed=1
done
exit $failed
