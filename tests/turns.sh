# Whose turn it is today: for tests/run.sh, which sources it.

day=${SPC_TEST_DAY:-$(($(date +%s) / 86400 % 1000))}

# Of $1 tests one, the next one tomorrow: for ctest.
one_in() {
    [ -n "${SPC_TEST_ALL:-}" ] || echo "-I $((day % $1 + 1)),,$1"
}

# The day by which a test samples that has its turn every $1 days: one more each
# time. By the calendar a suite that takes a third of its cases a day would meet the
# same third in all its turns.
day_of_turn() {
    echo $((day / $1))
}
