# SPDX-License-Identifier: Apache-2.0
# helpers.sh - functions for the commands of the recorded cases.

layer=subm,cin=4,cout=6,k=3,dtype=f32
scene=gen:uniform,n=300,extent=12
# For this layer and scene the oracle takes minutes.
wide=subm,cin=256,cout=256,k=3,dtype=f32
dense=gen:uniform,n=100000,extent=50

# Replaces what differs between runs: winners by WINNER, numbers by N.
steady() {
    sed -E -e 's/plain tile=[0-9]+,step=[0-9],order=[a-z]+/plain WINNER/' \
        -e 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g' -e 's/ +/ /g' -e 's/ $//'
}

# id_of WORD DATABASE: prints the id of the problem whose line in the listing
# has this word.
id_of() {
    spctune db ls --database "$2" | sed -n "s/^ *\([0-9]*\) .*$1.*/\1/p"
}

# unruly COMMAND...: runs the command with faulty templates, some of which
# crash. A sanitizer must not catch the signal.
unruly() {
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0 \
        spctune -d cpu --templates "$PWD/templates/unruly" "$@"
}

# broken CALL=CODE COMMAND...: runs the command on a fake driver whose CALL
# fails with CODE.
broken() {
    failing=$1
    shift
    doubles=$(dirname "$(readlink -f ../bin/spctune)")/../tests/fake_cuda
    LD_LIBRARY_PATH=$doubles${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        SPC_FAKE_CUDA_FAILS=$failing spctune "$@"
}

# first COLUMNS: prints only the first characters of each line.
first() {
    cut -c "1-$1"
}

# until_it_takes_signals PID: waits until the process handles signals, ten
# seconds at most. The main thread blocks signals once another thread waits for
# them.
until_it_takes_signals() {
    for try in $(seq 100); do
        # Takes the last 8 digits: a thread that is starting another one blocks
        # all signals, and its 16 digits would overflow the arithmetic of sh.
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

# mistake N COMMAND...: runs a command on a layer for which a template makes its
# mistake number N.
mistake() {
    n=$1
    shift
    spctune -q -d cpu --templates templates/mistakes "$@" subm,cin=$n,cout=6,k=3,dtype=f32 --database ""
}

# planted MISTAKE COMMAND...: runs the command with a single kernel, which has
# this fault (the mistakes are those of
# source/tests/templates/gate/cpu_kernel.lua).
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

# refused COMMAND...: runs the command, prints its first report of a wrong
# kernel, and returns its status.
refused() {
    "$@" >out 2>&1
    status=$?
    sed -n 's/.*: mistaken fault=\([a-z_0-9]*\): \([a-z -]*\):.*/\1: \2/p' out
    [ $status = 17 ] || cat out
    return $status
}

# The layers of examples/frames.c, and the folder of the built examples.
frame_layers="subm,cin=16,cout=16,k=3
    conv,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint
    inverse,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint"
examples=$(dirname "$(readlink -f "$(command -v spctune)")")/../examples

# without_compiler COMMAND...: runs the command without a compiler for the host
# or a GPU.
without_compiler() {
    SPC_CC=/bin/false SPC_NVRTC=/nonexistent "$@"
}

# tune_list ARGUMENT...: runs `tune list` on a scene, with the template plain.
tune_list() {
    spctune -d cpu --templates templates/plain tune list --scene $scene --effort quick "$@"
}

# part VARIABLE=VALUE...: prints the part of the list that a process gets from a
# launcher that sets these variables.
part() {
    (export "$@" && tune_list --shard auto 2>&1 >/dev/null) |
        sed 's/: [0-9]* of/: N of/'
}

# on_terminal COLUMNS COMMAND...: runs the command on a terminal of this width.
on_terminal() {
    columns=$1
    shift
    script -qec "stty cols $columns rows 40; $*" /dev/null </dev/null |
        tr -d '\r'
}
