#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh - changes the files of tests/corpus at random for long: each parser has
# so many CPU minutes, as many at a time as there are cores.
#
#     sh tests/fuzz.sh [MINUTES [BUILD_FOLDER]]      10 build/asan
#
# What did harm is printed with its seed: keep the file in the corpus. A build
# with AddressSanitizer (cmake --preset asan) sees most.
set -u
here=$(cd "$(dirname "$0")" && pwd)
minutes=${1:-10}
build=${2:-$here/../build/asan}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

# Each line names a program and a file ending, for one parser.
parsers() {
    for file in "$here"/corpus/texts/*.*; do echo "texts .${file##*.}"; done
    for file in "$here"/corpus/*.*; do echo "import .${file##*.}"; done
}

for name in texts import; do
    [ -x "$build/tests/test_fuzz_$name" ] || {
        echo "there is no $build/tests/test_fuzz_$name: build it, or name a folder" >&2
        exit 2
    }
done
export build log minutes
export ASAN_OPTIONS="allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
parsers | sort -u | xargs -P "$(nproc)" -L 1 sh -c '
    if "$build/tests/test_fuzz_$0" --minutes "$minutes" "$1" >"$log/$0$1" 2>&1
    then echo "ok: $0 $1"; grep -h "from seed" "$log/$0$1"
    else echo "FAILED: $0 $1"; cat "$log/$0$1"; touch "$log/failed"
    fi'
[ ! -e "$log/failed" ]
