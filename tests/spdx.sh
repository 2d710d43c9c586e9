#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# spdx.sh - does each source file name its licence at its top?
#
#     sh tests/spdx.sh SOURCES
#
# Texts that are hashed or whose lines are counted are left out: kernel
# templates, networks of tests, and what tests compare with.
set -u
cd "$1" || exit 1
missing=$(find . -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' \
    -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.awk' \) \
    ! -path './build/*' ! -path './.git/*' ! -path './templates/*' \
    ! -path './tests/templates/*' ! -path './tests/golden/*' \
    ! -path './tests/corpus/*' ! -path './tests/networks/*' ! -path './shared/*' |
    while read -r file; do
        head -2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
            echo "$file"
    done)
[ -z "$missing" ] || {
    echo "no line 'SPDX-License-Identifier: Apache-2.0' at the top of:"
    echo "$missing"
    exit 1
}
echo "each source names its licence"
