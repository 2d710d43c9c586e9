#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fleet.sh - tunes a list with a real Slurm of one node, and with a real mpirun.
#
#     sh tests/fleet.sh SPCTUNE
#
# Needs root, and the packages slurm-wlm, munge and openmpi-bin; ends with 77 if
# one of them is missing. The device is the cpu. Each way of sharing a list must
# tune every layer exactly once, and must make the database that a single
# process makes, except for times and winners. A preempted job must end with 75
# and continue when it is run again. The test runs on request only, because it
# starts and stops a scheduler.
set -eu
spctune=$(readlink -f "$1")
templates=$(cd "$(dirname "$0")/templates/tuner/plain" && pwd)
for tool in slurmctld slurmd munged srun sbatch mpirun; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: slurmd needs root"; exit 77; }

work=$(mktemp -d)
mkdir "$work/out"
host=$(hostname -s)
daemons=
stop() {
    [ -z "$daemons" ] || kill $daemons 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap stop EXIT
export SLURM_CONF=$work/slurm.conf

# ---- a scheduler ----------------------------------------------------------

start_munge() {
    mkdir -m 755 "$work/munge"
    chmod 755 "$work"
    dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 2>/dev/null
    chmod 400 "$work/munge/key"
    munged --force --foreground --key-file="$work/munge/key" \
        --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
        --log-file="$work/munge/log" --seed-file="$work/munge/seed" \
        2>"$work/munged.out" &
    daemons="$daemons $!"
}

start_slurm() {
    mkdir "$work/state" "$work/spool"
    cat >"$SLURM_CONF" <<CONF
ClusterName=fleet
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:8
CONF
    slurmctld -D >"$work/slurmctld.out" 2>&1 &
    daemons="$daemons $!"
    slurmd -D >"$work/slurmd.out" 2>&1 &
    daemons="$daemons $!"
    for try in $(seq 60); do
        sinfo -h -o %T 2>/dev/null | grep -q idle && return
        sleep 0.5
    done
    echo "the scheduler did not start:"
    tail -n 5 "$work"/slurm*.log "$work"/slurm*.out
    exit 1
}

# ---- a list, and whether it was tuned -------------------------------------

layers=12
for i in $(seq $layers); do
    echo "subm,cin=$i,cout=$((i + 1)),k=3,dtype=f32 --scene gen:uniform,n=300,extent=12"
done >"$work/list"

tune="$spctune -q -d cpu --threads 1 --templates $templates tune $work/list
    --effort quick --json"

failed=0
# check NAME: checks that the outputs NAME.* have every layer once, and that the
# database has a choice for each.
check() {
    cat "$work/out/$1".* | grep -oE '"layer":"[^"]*"' | sort >"$work/got"
    if cmp -s "$work/want" "$work/got" &&
        [ "$($spctune db ls --database "$work/$1.db" --json |
            grep -o '"choice":' | wc -l)" = $layers ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1"
        diff "$work/want" "$work/got" || true
        ls -l "$work/out"
        failed=1
    fi
}

SPC_DATABASE=$work/alone.db $tune >"$work/out/alone.0"
grep -oE '"layer":"[^"]*"' "$work/out/alone.0" | sort >"$work/want"
[ "$(wc -l <"$work/want")" = $layers ] || { echo "no list to compare"; exit 1; }
check alone

# ---- mpirun ---------------------------------------------------------------

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$work/rank.sh" <<RANK
exec $(echo $tune) --shard auto >$work/out/mpirun.\$OMPI_COMM_WORLD_RANK
RANK
SPC_DATABASE=$work/mpirun.db mpirun --oversubscribe -np 3 sh "$work/rank.sh"
check mpirun

# ---- Slurm ----------------------------------------------------------------

start_munge
start_slurm

cat >"$work/step.sh" <<STEP
exec $(echo $tune) --shard auto >$work/out/srun.\$SLURM_PROCID
STEP
SPC_DATABASE=$work/srun.db srun --overcommit -n 3 sh "$work/step.sh"
check srun

# Submits an array with the numbers 3, 5, ..., whose steps have two processes.
cat >"$work/array.sh" <<ARRAY
#!/bin/sh
export SPC_DATABASE=$work/array.db
srun --overcommit -n 2 sh -c 'exec $(echo $tune) --shard auto \
    >$work/out/array.\$SLURM_ARRAY_TASK_ID.\$SLURM_PROCID'
ARRAY
sbatch -W --array=3-7:2 -n 1 --overcommit -o "$work/array-%a.out" \
    "$work/array.sh" >/dev/null || cat "$work"/array-*.out
check array

# Preempts the job half-way: Slurm sends SIGUSR1 first. A second run finishes
# the list.
cat >"$work/preempted.sh" <<PREEMPTED
#!/bin/sh
export SPC_DATABASE=$work/preempted.db
$(echo $tune) --effort exhaustive >$work/out/preempted.first &
pid=\$!
trap 'kill -USR1 \$pid' USR1
wait \$pid
wait \$pid
echo \$? >$work/status
PREEMPTED
job=$(sbatch --parsable -n 1 -o "$work/preempted.out" "$work/preempted.sh")
until [ "$($spctune db ls --database "$work/preempted.db" --json 2>/dev/null |
    grep -o '"choice":' | wc -l)" -ge 2 ]; do sleep 0.2; done
scancel --batch --signal=USR1 "$job"
for try in $(seq 100); do
    [ -s "$work/status" ] && break
    sleep 0.2
done
status=$(cat "$work/status" 2>/dev/null || echo none)
if [ "$status" = 75 ]; then
    echo "ok: preempted, status 75"
else
    echo "FAILED: a preempted job ended with $status"
    failed=1
fi
rm "$work/out/preempted.first"
SPC_DATABASE=$work/preempted.db $tune --effort exhaustive >"$work/out/preempted.0"
check preempted
if ! grep -q '"known":[1-9]' "$work/out/preempted.0"; then
    echo "FAILED: the second run knew nothing"
    failed=1
fi
exit $failed
