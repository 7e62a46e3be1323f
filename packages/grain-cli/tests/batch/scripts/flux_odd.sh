#!/bin/sh
# flux: --job-name="a#b$(id)"
# flux: --output="/home/me/run/logs of me/w#093015 \"x\".log"
# flux: -N1 -n1
# flux: --exclusive
# flux: --queue="my queue"
# flux: --signal=USR1@120s

# Reserved for the worker itself (worker.reserve): 0.5 GB of 3.5, 00:01:00.
grain_name='a#b$(id)'

# Only its owner may read the output. No redirection here: dash makes it in the shell itself.
for grain_fd in 1 2; do
    [ ! -f "/proc/$$/fd/$grain_fd" ] || chmod go-rwx "/proc/self/fd/$grain_fd" || :
done

# Clean-up, from script.setup_cleanup: what was deferred last comes first.
grain_clean_up() {
set +eu
echo "it's }"
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
