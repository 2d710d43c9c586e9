#!/bin/sh
# verify_sample.sh - a sample of `spctune verify --all`, another one each day.
#
#     sh tests/verify_sample.sh SPCTUNE DEVICE CASES
#
# $SPC_TEST_DAY repeats a day's; $SPC_TEST_ALL takes a hundred times as many.
set -u
day=${SPC_TEST_DAY:-$(($(date +%s) / 86400 % 1000))}
cases=$3
[ -z "${SPC_TEST_ALL:-}" ] || cases=$((cases * 100))
# What one test has compiled another one finds.
SPC_DATABASE=${SPC_TEST_DATABASE:-}
export SPC_DATABASE
exec "$1" -d "$2" verify --all --cases "$cases" --seed "$day"
