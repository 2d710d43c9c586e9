#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# verify_sample.sh - a sample of `spctune verify --all`, the same one every time.
#
#     sh tests/verify_sample.sh SPCTUNE DEVICE CASES
#
# $SPC_SEED draws another one; $SPC_TEST_ALL takes a hundred times as many.
set -u
cases=$3
[ -z "${SPC_TEST_ALL:-}" ] || cases=$((cases * 100))
# Tests share compiled code.
SPC_DATABASE=${SPC_TEST_DATABASE:-}
SPC_SHIPPED= # ignores a database next to the build
export SPC_DATABASE SPC_SHIPPED
exec "$1" -d "$2" verify --all --cases "$cases" --seed "${SPC_SEED:-1}"
