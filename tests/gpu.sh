#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu.sh BUILD_DIR [NAME[:CASE]...]: runs the tests of the label "gpu", all or those
# named, without ctest, whose paths are those of the machine that built them:
#
#   cmake --preset static-tests && cmake --build --preset static-tests
#   ... carry the tree to the GPU ...
#   sh tests/gpu.sh build/static-tests
#   SPC_TEST_JOBS=4 sh tests/gpu.sh build/static-tests gate_gpu net_replays_gpu:resn21
#
# With CASE only that case of a program, as Check has named it. One line for each,
# then "N passed, M failed, K skipped". What a program says is shown if it fails or
# skips itself, and kept in BUILD_DIR/tests/NAME[.CASE].log. SPC_TEST_LIMIT_S:
# seconds for one program (900); SPC_TEST_JOBS: programs at once (1).
set -u

[ $# -ge 1 ] && [ -f "$1/tests/gpu_tests.txt" ] || {
    echo "usage: sh tests/gpu.sh BUILD_DIR [NAME[:CASE]...]" >&2
    echo "BUILD_DIR/tests/gpu_tests.txt must be there: build with tests" >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1/tests" && pwd)
shift
SPC_TEST_DATA=${SPC_TEST_DATA:-$here}
SPC_TEST_DATABASE=${SPC_TEST_DATABASE:-$build/code.db} # the database of
                                                       # compiled code that
                                                       # suites share
verdicts=$(mktemp)
trap 'rm -f "$verdicts"' EXIT
export SPC_TEST_DATA SPC_TEST_DATABASE build verdicts

# Each line is one run: "NAME PROGRAM DEVICE [CASE]".
wanted() {
    while read -r name program device; do
        [ $# -gt 0 ] || echo "$name $program $device"
        for word; do
            case $word in
            "$name") echo "$name $program $device" ;;
            "$name":*) echo "$name $program $device ${word#*:}" ;;
            esac
        done
    done <"$build/gpu_tests.txt"
}

# timeout(1) ends programs that hang, with status 124 or 137.
wanted "$@" | xargs -r -L 1 -P "${SPC_TEST_JOBS:-1}" sh -c '
    name=$0${3:+.$3} start=$(date +%s) status=0
    [ $# -lt 3 ] || export CK_RUN_CASE="$3"
    timeout -k 10 "${SPC_TEST_LIMIT_S:-900}" "$build/$1" "$2" \
        >"$build/$name.log" 2>&1 </dev/null || status=$?
    case $status in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    *) verdict=failed ;;
    esac
    echo "$verdict" >>"$verdicts"
    echo "$verdict $name $(($(date +%s) - start)) s (status $status)"
    [ "$verdict" = passed ] || tail -n 40 "$build/$name.log" | sed "s/^/    /"'
passed=$(grep -c passed "$verdicts")
failed=$(grep -c failed "$verdicts")
skipped=$(grep -c skipped "$verdicts")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
