#!/bin/sh
# Each test has its turn, and in its turns each part of what it samples.
. "$(dirname "$0")/turns.sh"
unset SPC_TEST_ALL

for turns in 3 4 6; do
    for parts in 2 3 6 9 10 12 16; do
        seen=$(for day in $(seq 0 $((turns * parts - 1))); do
            echo "$(one_in $turns) $(($(day_of_turn $turns) % parts))"
        done | sort -u | wc -l)
        if [ "$seen" -ne $((turns * parts)) ]; then
            echo "one in $turns tests, of each one part in $parts: in as many days" \
                "$seen of $((turns * parts)) pairs have their turn" >&2
            exit 1
        fi
    done
done
