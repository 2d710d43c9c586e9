#!/bin/sh
# gpu.sh BUILD_DIR [NAME...]: runs the tests of the label "gpu", all or those
# named, without ctest, whose paths are those of the machine that built them:
#
#   cmake --preset static-tests && cmake --build --preset static-tests
#   ... carry the tree to the GPU ...
#   sh tests/gpu.sh build/static-tests
#
# One line for each program, then "N passed, M failed, K skipped". What a
# program says is shown if it fails or skips itself, and kept in
# BUILD_DIR/tests/NAME.log. SPC_TEST_LIMIT_S: seconds for one program (900).
set -u

[ $# -ge 1 ] && [ -f "$1/tests/gpu_tests.txt" ] || {
    echo "usage: sh tests/gpu.sh BUILD_DIR [NAME...]" >&2
    echo "BUILD_DIR/tests/gpu_tests.txt must be there: build with tests" >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1/tests" && pwd)
shift
wanted=" $* "
passed=0 failed=0 skipped=0
SPC_TEST_DATA=${SPC_TEST_DATA:-$here}
SPC_TEST_DATABASE=${SPC_TEST_DATABASE:-$build/code.db} # what one has compiled
export SPC_TEST_DATA SPC_TEST_DATABASE

# Sets $verdict; timeout(1) ends what hangs with 124 or 137.
run() {
    timeout -k 10 "${SPC_TEST_LIMIT_S:-900}" "$build/$2" "$3" \
        >"$build/$1.log" 2>&1 </dev/null
    status=$?
    case $status in
    0) verdict=passed passed=$((passed + 1)) ;;
    77) verdict=skipped skipped=$((skipped + 1)) ;;
    *) verdict=failed failed=$((failed + 1)) ;;
    esac
}

while read -r name program device; do
    case $wanted in
    "  ") ;;
    *" $name "*) ;;
    *) continue ;;
    esac
    start=$(date +%s)
    run "$name" "$program" "$device"
    echo "$verdict $name $(($(date +%s) - start)) s (status $status)"
    [ "$verdict" = passed ] || tail -n 40 "$build/$name.log" | sed 's/^/    /'
done <"$build/gpu_tests.txt"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
