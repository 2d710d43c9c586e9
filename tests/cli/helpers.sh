# SPDX-License-Identifier: Apache-2.0
# helpers.sh - functions for the commands of the recorded cases.

layer=subm,cin=4,cout=6,k=3,dtype=f32
scene=gen:uniform,n=300,extent=12
# The oracle takes minutes for these layers.
wide=subm,cin=256,cout=256,k=3,dtype=f32
dense=gen:uniform,n=100000,extent=50

# Replaces figures that differ between runs, and winners, by N.
steady() {
    sed -E -e 's/plain tile=[0-9]+,step=[0-9],order=[a-z]+/plain WINNER/' \
        -e 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g' -e 's/ +/ /g' -e 's/ $//'
}

# id_of WORD DATABASE: the number of the problem that is listed with this word.
id_of() {
    spctune db ls --database "$2" | sed -n "s/^ *\([0-9]*\) .*$1.*/\1/p"
}

# unruly COMMAND...: runs the command with faulty templates, some of which
# crash. A sanitizer must not catch the signal.
unruly() {
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0 \
        spctune -d cpu --templates "$PWD/templates/unruly" "$@"
}

# broken CALL=CODE COMMAND...: runs it on a fake driver whose CALL fails with CODE.
broken() {
    failing=$1
    shift
    doubles=$(dirname "$(readlink -f ../bin/spctune)")/../tests/fake_cuda
    LD_LIBRARY_PATH=$doubles${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        SPC_FAKE_CUDA_FAILS=$failing spctune "$@"
}

# Prints only the first words of each line.
first() {
    cut -c "1-$1"
}

# until_it_takes_signals PID: waits until the process handles signals, ten
# seconds at most. Its main thread blocks signals, as another thread waits for
# them.
until_it_takes_signals() {
    for try in $(seq 100); do
        # The 16 digits of a thread that just starts another are too many for sh.
        blocked=$(sed -n 's/^SigBlk:.*\(.\{8\}\)$/0x\1/p' "/proc/$1/status")
        [ $((blocked & 2)) = 0 ] || break
        sleep 0.1
    done
}

# stopped_by SIGNALS COMMAND: starts the command, sends the signals a second
# after it can handle them, and prints its exit, whether the exit took long, and
# the remaining temporary files.
stopped_by() {
    signals=$1
    shift
    mkdir -p tmp
    TMPDIR=$PWD/tmp "$@" >out 2>err &
    pid=$!
    until_it_takes_signals $pid
    sleep 1
    for signal in $signals; do
        kill -"$signal" $pid
    done
    since=$(date +%s)
    wait $pid
    echo "exit $?"
    [ $(($(date +%s) - since)) -le 5 ] || echo "late"
    grep -v '^nohup:' err
    ls tmp
}

# still_running WORDS: prints the command lines with these words, after up to five
# seconds in which they may end. Processes that end meanwhile are left out.
still_running() {
    for pause in 0 0.1 0.4 1.5 3; do
        sleep $pause
        running=$(for line in /proc/[0-9]*/cmdline; do
            tr '\0' ' ' <"$line" && echo
        done 2>/dev/null)
        found=$(printf '%s\n' "$running" | grep -F -- "$1") || return 0
    done
    printf '%s\n' "$found"
}

# Runs a command on a layer for which a template makes its N-th mistake.
mistake() {
    n=$1
    shift
    spctune -q -d cpu --templates templates/mistakes "$@" subm,cin=$n,cout=6,k=3,dtype=f32 --database ""
}

# planted MISTAKE COMMAND...: runs it with only a kernel that has this fault
# (the mistakes are those of source/tests/templates/gate/cpu_kernel.lua).
planted() {
    mistake=$1
    shift
    mkdir -p "$mistake"
    cp ../source/tests/templates/gate/cpu_kernel.lua "$mistake"
    printf '%%%s\n' 'include "cpu_kernel.lua"' \
        "template = planted({\"$mistake\"})" ' write_kernel()' |
        sed 's/^% write/\n&/' >"$mistake/mistaken.c.lua"
    spctune -q -d cpu --templates "$mistake" "$@" --database ""
}

# refused COMMAND...: prints its first report of a wrong kernel, and its status.
refused() {
    "$@" >out 2>&1
    status=$?
    sed -n 's/.*: mistaken fault=\([a-z_0-9]*\): \([a-z -]*\):.*/\1: \2/p' out
    [ $status = 17 ] || cat out
    return $status
}

# The layers of examples/frames.c, and where the examples are built.
frame_layers="subm,cin=16,cout=16,k=3
    conv,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint
    inverse,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint"
examples=$(dirname "$(readlink -f "$(command -v spctune)")")/../examples

# without_compiler COMMAND...: runs it without a compiler for the host or a GPU.
without_compiler() {
    SPC_CC=/bin/false SPC_NVRTC=/nonexistent "$@"
}

# tune_list ARGUMENT...: the list of the case on lists.
tune_list() {
    spctune -d cpu --templates templates/plain tune list --scene $scene --effort quick "$@"
}

# part VARIABLE=VALUE...: prints its part under a launcher with these variables.
part() {
    (export "$@" && tune_list --shard auto 2>&1 >/dev/null) |
        sed 's/: [0-9]* of/: N of/'
}

# Prints a command's output on a terminal of that many columns.
on_terminal() {
    columns=$1
    shift
    script -qec "stty cols $columns rows 40; $*" /dev/null </dev/null |
        tr -d '\r'
}
