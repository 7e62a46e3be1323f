#!/bin/bash
#PBS -N w093015
#PBS -S /bin/bash
#PBS -j oe
#PBS -o /home/me/run/w093015.log
#PBS -l select=4:ncpus=16:mem=60gb:ngpus=2
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -q debug
#PBS -A chem

# Reserved for the worker itself (worker.reserve): 0.5 GB of 60, 00:01:00 of 01:00:00.
grain_began=`date +%s`
grain_name=w093015
grain_log=/home/me/run/w093015.log
cd "$PBS_O_WORKDIR" || exit

# Only its owner may read the output. No redirection here: dash makes it in the shell itself.
for grain_fd in 1 2; do
    [ ! -f "/proc/$$/fd/$grain_fd" ] || chmod go-rwx "/proc/self/fd/$grain_fd" || :
done

# Clean-up, from script.setup_cleanup: what was deferred last comes first.
grain_clean_up() {
set +eu
cp -r $SCRATCH_DIR/kept $HOME/kept
rm -r $SCRATCH_DIR
}
trap grain_clean_up EXIT

grain_main=
grain_signal=
grain_forward() {
    grain_again=yes
    if [ -z "$grain_main" ]; then
        grain_signal=$1
    else
        kill -s "$1" "$grain_main" 2>/dev/null || :
    fi
}
trap 'grain_forward USR1' USR1
trap 'grain_forward TERM' TERM INT USR2

# Set-up, from script.setup_cleanup.
export SCRATCH_DIR=/tmp/$USER-scratch
mkdir -p $SCRATCH_DIR

if [ -n "$grain_signal" ]; then
    echo "grain: SIG$grain_signal came during the set-up; $grain_name is not started" >&2
    exit 1
fi
grain_left=$((3540 + grain_began - `date +%s`))
if [ "$grain_left" -le 0 ]; then
    echo "grain: the set-up took all of the walltime; $grain_name is not started" >&2
    exit 1
fi

(trap '' INT USR2; exec grain-worker \
    --url edge:///shared/me/edge \
    --res '{"Cores": {"auto": {"most": 16}}, "GPUs": "auto", "Memory": 59.5, "Token": {"token": "it'"'"'s"}, "WTime": '"$grain_left"'}' \
    --name "$grain_name" \
    --nodes 4 --log "$grain_log" \
    --context /home/me/config/context.py) &
grain_main=$!
[ -z "$grain_signal" ] || kill -s "$grain_signal" "$grain_main" 2>/dev/null || :

# A signal interrupts `wait`, which is then repeated; 127 means that all was collected already.
grain_status=127
grain_again=yes
while [ "$grain_again" = yes ]; do
    grain_again=no
    wait "$grain_main" && grain_got=0 || grain_got=$?
    [ "$grain_got" = 127 ] || grain_status=$grain_got
done
grain_main=

# For 99, Grid Engine would run the job again, for 100, hold it; LSF has a list of its own.
case " 99 100 ${LSB_EXIT_REQUEUE-} " in
    *[" ("]"$grain_status"[" )"]*) grain_status=1 ;;
esac
exit "$grain_status"
