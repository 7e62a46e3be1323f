# The processes of the job's earlier start may still live, for instance on a lost node.
if [ "${SLURM_RESTART_COUNT:-0}" != 0 ]; then
    grain_name=$grain_name-r$SLURM_RESTART_COUNT
    grain_log=`readlink "/proc/$$/fd/1"`
    grain_log=${grain_log%.log}-r$SLURM_RESTART_COUNT.log
    if [ -f "/proc/$$/fd/1" ] && (umask 077 && : >>"$grain_log") 2>/dev/null; then
        exec >>"$grain_log" 2>&1
    fi
fi

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

# Reserved for the worker itself (worker.reserve): 0.5 GB of 60, 00:01:00 of 01:00:00.
grain_began=`date +%s`
grain_name=w093015
grain_log=/home/me/run/w093015.log
cd "$PBS_O_WORKDIR" || exit

# The processes of the job's earlier start may still live, for instance on a lost node.
if [ "${RESTARTED:-0}" != 0 ]; then
    grain_name=$grain_name-r$RESTARTED
    grain_log=`readlink "/proc/$$/fd/1"`
    grain_log=${grain_log%.log}-r$RESTARTED.log
    if [ -f "/proc/$$/fd/1" ] && (umask 077 && : >>"$grain_log") 2>/dev/null; then
        exec >>"$grain_log" 2>&1
    fi
fi

# Reserved for the worker itself (worker.reserve): 0.5 GB of 60, 00:01:00 of 01:00:00.
grain_began=`date +%s`
grain_name=w093015
grain_own=/opt/grain/bin
PATH=$grain_own:$PATH

# That of the grain which submitted this, unless the set-up has put another before it.
grain_worker=`command -v grain-worker` || grain_worker="$grain_own/grain-worker"
# Tasks find other programs as the set-up has it.
case $PATH in *"$grain_own":*)
    PATH=${PATH%%"$grain_own":*}${PATH#*"$grain_own":}:$grain_own ;;
esac

(trap '' INT USR2; exec "$grain_worker" \
    --url edge:///shared/me/edge \
    --res '{"Cores": {"auto": {"most": 16}}, "GPUs": "auto", "Memory": 59.5, "Token": {"token": "it'"'"'s"}, "WTime": '"$grain_left"'}' \
    --name "$grain_name" \
    --context /home/me/config/context.py) &
grain_main=$!
[ -z "$grain_signal" ] || kill -s "$grain_signal" "$grain_main" 2>/dev/null || :

# Reserved for the worker itself (worker.reserve): 0.5 GB of 3.5, 00:01:00.
grain_name='a#b$(id)'

# Clean-up, from script.setup_cleanup: what was deferred last comes first.
grain_clean_up() {
set +eu
echo "it's }"
}
trap grain_clean_up EXIT

# Set-up, from script.setup_cleanup.
set -eu
cat <<END
  ; } ) "
END

if [ -n "$grain_signal" ]; then
    echo "grain: SIG$grain_signal came during the set-up; $grain_name is not started" >&2
    exit 1
fi

(trap '' INT USR2; exec grain-worker \
    --url 'edge:///a b/'"'"'c'"'"';id' \
    --res '{"Cores": "auto", "GPUs": "auto", "Memory": 3.0, "WTime": {"auto": {"less": 60}}}' \
    --name "$grain_name") &
grain_main=$!
[ -z "$grain_signal" ] || kill -s "$grain_signal" "$grain_main" 2>/dev/null || :

# Reserved for the worker itself (worker.reserve): 0.5 GB, 00:01:00.
grain_name=w093015

(trap '' INT USR2; exec grain-worker \
    --url edge:///home/me/.local/share/edge-file-default \
    --res '{"Cores": "auto", "GPUs": "auto", "Memory": {"auto": {"less": 0.5}}, "WTime": {"auto": {"less": 60}}}' \
    --name "$grain_name") &
grain_main=$!
[ -z "$grain_signal" ] || kill -s "$grain_signal" "$grain_main" 2>/dev/null || :

# Reserved for the worker itself (worker.reserve): 0.5 GB of 60, 00:01:00 of 01:00:00.
grain_began=`date +%s`
grain_name=w093015
grain_own=/opt/grain/bin
PATH=$grain_own:$PATH
cd "$PBS_O_WORKDIR" || exit

#!/bin/bash
rm -f -- "$0"
