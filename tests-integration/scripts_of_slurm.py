# ruff: noqa: E501 - a script is a line
"""Scripts of many kinds, each with its options of sbatch: ``OPTIONS | SCRIPT`` in a line.

``show A B`` prints variables, and ``names A`` the names of those that begin so. The cluster has a
node of two cores. What a program says and what srun says of it comes in any order.

``srun -i in.%t`` is not among them: slurmstepd of Slurm 22.05.8 crashes of it, and such a step
never ends. `test_steps.py` has it for Grain.
"""

SCRIPTS = r"""
| echo hello; echo there >&2
| exit 3
| kill -9 $$
| kill -TERM $$
| false; true
| set -e; false; echo not reached
| show SLURM_JOB_NAME SLURM_JOBID SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_SUBMIT_DIR
| show SLURM_NTASKS SLURM_NPROCS SLURM_CPUS_PER_TASK SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU
| show SLURM_CPUS_ON_NODE SLURM_JOB_CPUS_PER_NODE SLURM_TASKS_PER_NODE SLURM_PROCID SLURM_LOCALID
| show SLURM_NODEID SLURM_GTIDS SLURM_JOB_UID SLURM_JOB_USER SLURM_JOB_GID SLURM_RESTART_COUNT
| show SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_STEP_ID SLURM_GPUS SLURM_JOB_GPUS
| show SLURM_JOB_NODELIST SLURM_NODELIST SLURMD_NODENAME SLURM_TOPOLOGY_ADDR_PATTERN
| show ENVIRONMENT SLURM_PRIO_PROCESS SLURM_EXPORT_ENV SLURM_JOB_ACCOUNT SLURM_JOB_QOS
| test "$SLURM_TASK_PID" = $$ && echo own
| pwd; ls -d .; umask
| ulimit -Sn
| basename $0 | sed 's/^slurm_script$/script/'; echo $# "$@"
| cat; echo end of input
| id -un; hostname
| tty; test -t 0; echo $?
| trap 'echo trapped' USR1; kill -USR1 $$; trap
| echo a b  c | tr ' ' _
| for i in 1 2 3; do echo $i; done | tail -1
| exec sh -c 'echo replaced; exit 4'
| echo ${BASH_VERSION:+bash}
| sleep 0.1 & wait; echo waited
| cd /tmp && pwd
| (exit 7) || echo status $?
-J name | show SLURM_JOB_NAME
-J "two words" | show SLURM_JOB_NAME
--job-name=a%b | show SLURM_JOB_NAME
-n 2 | show SLURM_NTASKS SLURM_NPROCS SLURM_CPUS_ON_NODE SLURM_TASKS_PER_NODE SLURM_JOB_CPUS_PER_NODE
-n 1 | show SLURM_NTASKS SLURM_NPROCS SLURM_TASKS_PER_NODE
-c 2 | show SLURM_CPUS_PER_TASK SLURM_CPUS_ON_NODE SLURM_NTASKS
-n 1 -c 2 | show SLURM_CPUS_PER_TASK SLURM_TASKS_PER_NODE SLURM_NTASKS
-N 1 | show SLURM_NNODES SLURM_NTASKS SLURM_JOB_NUM_NODES
-N 1 -n 2 | show SLURM_NNODES SLURM_NTASKS SLURM_TASKS_PER_NODE
-N 1-1 -n 2 | show SLURM_NNODES SLURM_NTASKS
--ntasks-per-node=2 | show SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_TASKS_PER_NODE SLURM_CPUS_ON_NODE
--tasks-per-node=2 -N 1 | show SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_TASKS_PER_NODE
--mincpus=2 | show SLURM_CPUS_ON_NODE SLURM_NTASKS
--mem=100 | show SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU
--mem=100M | show SLURM_MEM_PER_NODE
--mem=1G | show SLURM_MEM_PER_NODE
--mem=204800K | show SLURM_MEM_PER_NODE
--mem-per-cpu=100 -n 2 | show SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU
-n 2 --distribution=cyclic | show SLURM_DISTRIBUTION
-n 2 --threads-per-core=1 | show SLURM_THREADS_PER_CORE SLURM_NTASKS
-n 4 -O | show SLURM_NTASKS SLURM_OVERCOMMIT SLURM_CPUS_ON_NODE
--exclusive | show SLURM_CPUS_ON_NODE SLURM_JOB_CPUS_PER_NODE SLURM_TASKS_PER_NODE
--oversubscribe | echo shared
--wait-all-nodes=1 | echo all
--no-kill | echo no-kill
--hint=nomultithread | show SLURM_HINT SLURM_THREADS_PER_CORE
--export=NONE | show OF_USER SLURM_EXPORT_ENV
--export=ALL,ADDED=1 | show OF_USER ADDED SLURM_EXPORT_ENV
--export=OF_USER | show OF_USER OTHER
--export=ADDED=2 | show OF_USER ADDED
--export=NIL | show OF_USER
--get-user-env | echo ran
-t 5 | echo limited
-t 0:30 | echo limited
-t 1-0 | echo limited
-t 0 | echo unlimited
-t 1:00:00 --signal=USR1@10 | echo early
--nice=5 | show SLURM_PRIO_PROCESS
--comment=hey | echo commented
--mail-type=NONE --mail-user=a@b | echo mailed
--requeue | show SLURM_RESTART_COUNT
--no-requeue | show SLURM_RESTART_COUNT
--chdir=/tmp | pwd; show SLURM_SUBMIT_DIR
-D / | pwd
-i input.txt | cat
--input=none | cat; echo none
-e %x.err -J sep | echo out; echo err >&2; sleep 0.1; cat sep.err
--open-mode=append | echo appended
--propagate=NONE | echo ran
--propagate=NOFILE | ulimit -Sn
--uid=0 | id -u
--begin=now | echo begun
--contiguous --cores-per-socket=1 | echo placed
-v | echo verbose
-Q | echo quiet
-n 2 | srun echo hi
-n 2 | srun -l echo hi | sort
-n 2 | srun -n 1 echo one
-n 2 | srun -n2 -l sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS' | sort
-n 2 | srun --ntasks=1 --cpus-per-task=2 sh -c 'show() { echo $SLURM_CPUS_PER_TASK; }; show'
-n 2 | srun -n1 sh -c 'echo $SLURM_STEP_ID $SLURM_STEPID'; srun -n1 sh -c 'echo $SLURM_STEP_ID'
-n 2 | srun -n1 sh -c 'echo $SLURM_STEP_NUM_TASKS $SLURM_STEP_NUM_NODES $SLURM_STEP_TASKS_PER_NODE'
-n 2 | srun sh -c 'exit $SLURM_PROCID'; echo status $?
-n 2 | srun sh -c 'exit $((3 + SLURM_PROCID))'; echo status $?
-n 2 | srun -n1 false || echo failed
-n 2 | srun -n1 sh -c 'kill -9 $$'; echo status $?
-n 2 | srun -n1 sh -c 'kill -TERM $$'; echo status $?
-n 2 | srun -n 3 true; echo status $?
-n 2 | srun -n 3 -O true; echo status $?
-n 2 | srun -n1 no-such-program 2>&1 | sort; echo status ${PIPESTATUS[0]}
-n 2 | srun -n1 /etc/passwd 2>&1 | sort; echo status ${PIPESTATUS[0]}
-n 2 | srun -n1 -D /tmp pwd
-n 2 | srun -n1 -o step.txt echo filed; cat step.txt
-n 2 | srun -n2 -o step-%t.txt sh -c 'echo $SLURM_PROCID'; cat step-0.txt step-1.txt
-n 2 | srun -n1 -e step.err sh -c 'echo e >&2'; cat step.err
-n 2 | srun -n1 -J named sh -c 'echo $SLURM_JOB_NAME'
-n 2 | echo given | srun -n1 cat
-n 2 | echo given | srun -n2 cat | sort
-n 2 | echo given | srun -n2 -l -i 1 sh -c 'cat; echo end' | sort
-n 2 | echo given | srun -n1 -i none cat; echo status $?
-n 2 | srun -n1 --export=NONE sh -c 'echo ${OF_USER-unset}'
-n 2 | srun -n1 --export=ALL,ADDED=1 sh -c 'echo $OF_USER $ADDED'
-n 2 | srun -n1 --exact sleep 0.2 & srun -n1 --exact sleep 0.2 & wait; echo both
-n 2 | srun -n1 --overlap sleep 0.1; echo status $?
-n 2 | srun -n1 sh -c 'echo $SLURM_LAUNCH_NODE_IPADDR $SLURM_UMASK'
-n 2 | umask 027; srun -n1 sh -c 'echo $SLURM_UMASK; umask'
-n 2 | srun -n2 -K sh -c 'test $SLURM_PROCID = 0 && exit 5; sleep 20'; echo status $?
-n 2 | srun -n2 -W 1 sh -c 'test $SLURM_PROCID = 0 && exit 0; sleep 20'; echo status $?
-n 2 | printf '0 echo zero\n1 echo one %%t %%o\n' > multi.conf; srun -n2 -l --multi-prog multi.conf | sort
-n 2 | printf '0 echo zero\n' > half.conf; srun -n2 --multi-prog half.conf; echo status $?
-n 2 | srun --version | sed 's/-wlm//'
-n 2 | srun; echo status $?
-n 2 | srun --none true; echo status $?
-n 2 | srun -n x true; echo status $?
-n 2 | srun -n 0 true; echo status $?
-n 2 | srun -c 0 true; echo status $?
-n 2 | srun -N 2 true; echo status $?
-n 2 | srun -t bad true; echo status $?
-n 2 | srun --mem=bad true; echo status $?
-n 2 | srun --mpi=none -n1 echo ran
-n 2 | srun --mpi=nope true; echo status $?
-n 2 | srun -n1 --pty echo here
-n 2 | srun -I -n1 echo at once
-n 2 | srun -u -n1 echo unbuffered
-n 2 | srun -Q -n1 echo quiet
-n 2 | srun -n1 --cpu-bind=none nproc
-n 2 | srun -n1 -c2 nproc
-n 2 | srun -w no-such-node true; echo status $?
-n 2 | srun -r 5 -N1 true; echo status $?
-n 2 | srun --jobid=99999 true; echo status $?
-n 2 | scontrol show hostnames
-n 2 | scontrol show hostname a[1-2]
-n 2 | squeue -h -j $SLURM_JOB_ID -o '%t %j %C %D %u'
-n 2 | scontrol show job $SLURM_JOB_ID | grep -o 'JobState=[A-Z]*'
-n 2 | scancel $SLURM_JOB_ID; exec sleep 20
-n 2 | squeue -h -s -j $SLURM_JOB_ID -o %j
-t 0:01 --signal=B:USR1@1 | trap 'echo warned; exit 0' USR1; sleep 30 & wait
-J 'nf-foo_(1)' | show SLURM_JOB_NAME
--mail-type=END,FAIL --mail-user=a@b -A acct -q qos | echo accounted
-d singleton | echo alone
| umask 027; touch f; stat -c %a f
| scontrol write batch_script $SLURM_JOB_ID - | tail -2
-n 2 | srun -N 3 -n 2 true; echo status $?
-n 2 | srun -N1 --ntasks-per-node=1 echo hi; echo status $?
-n 2 | srun --ntasks-per-node=3 true; echo status $?
-n 2 | srun -m plane=1 -n1 sh -c 'echo $SLURM_DISTRIBUTION $SLURM_DIST_PLANESIZE'
-n 2 | srun -m Cyclic:block -n1 sh -c 'echo $SLURM_DISTRIBUTION'
-n 2 | srun -n1 sh -c 'echo $SLURM_DISTRIBUTION'; srun -n2 sh -c 'echo $SLURM_DISTRIBUTION'
-n 2 | srun -m nope true; echo status $?
-n 2 | srun -r x true; echo status $?
-n 2 | srun --multi-prog none.conf; echo status $?
-n 2 | printf '0 echo a\n* echo b%%o %%t\n' > m; srun -n2 --multi-prog m | sort
-n 2 | printf '* echo a\n0 echo b\n' > m; srun -n2 --multi-prog m; echo status $?
-n 2 | printf '0 echo a\n0-1 echo b\n' > m; srun -n2 --multi-prog m; echo status $?
-n 2 | printf '0-5 echo a\n' > m; srun -n2 --multi-prog m; echo status $?
-n 2 | unset SLURM_NTASKS; srun echo n
-n 2 | unset SLURM_NTASKS SLURM_NPROCS; srun echo n
-n 2 | SLURM_NTASKS=1 srun echo one
-n 2 | seq 3 | srun -n2 -l --input=0 cat | sort
-n 2 | seq 3 | srun -n2 -l --input=2 cat; echo status $?
-n 2 | printf "0 echo '%%t' %%t\n1 echo '%%o'\n" > q.conf; srun -l --multi-prog q.conf | sort
-n 1 | printf "0 echo a \"b c\" 'd  %%t' \\\\'f #g x%%ty %%%%t\n" > m; srun --multi-prog m
-n 2 | printf '0 true\nx true\n' > m; srun --multi-prog m; echo status $?
-n 2 | export SLURM_EXIT_ERROR=9; srun -n 3 true; echo $?; srun -n x true; echo $?; srun; echo $?
-n 2 | srun -n1 "" 2>&1 | sort; echo status ${PIPESTATUS[0]}
-n 2 | printf '#!/no/such\n' > bad; chmod +x bad; srun -n1 ./bad 2>&1 | sort; echo status ${PIPESTATUS[0]}
-n 2 | : > empty; chmod +x empty; srun -n1 ./empty 2>&1 | sort; echo status ${PIPESTATUS[0]}
-n 2 | srun -n1 ./gone 2>&1 | sort; echo status ${PIPESTATUS[0]}
-n 2 | for i in 1 2; do srun -n1 --exact sh -c "exit $i" 2> /dev/null & p="$p $!"; done; for q in $p; do wait $q; echo $?; done
-n 2 | seq 1 4 | xargs -P 2 -I{} srun -Q -n1 --exact --mem=10 echo {} | sort
-n 2 | set -e; srun -n1 true; srun -n1 sh -c 'exit 9'; echo not reached
-n 2 | SLURM_LABELIO=1 srun -n2 echo x | sort
-n 2 | SLURM_LABELIO= srun -n1 echo x; SLURM_LABELIO=no srun -n1 echo y
-n 2 | SLURM_TIMELIMIT=bad srun -n1 echo x; echo $?; SLURM_REMOTE_CWD=/tmp srun -n1 pwd
-n 2 | SRUN_CPUS_PER_TASK=2 srun -n1 sh -c 'echo $SLURM_CPUS_PER_TASK'
-n 2 | srun -l -n2 printf 'a\n\nb\n' | sort
-n 2 | srun -n2 -o 'p-%s-%t-%n-%%-%2t' true; ls p-*
-n 2 | srun -n2 -o none echo hidden; echo status $?
-n 2 | srun -n2 -e none sh -c 'echo out; echo err >&2' | sort
-n 2 | echo 'echo $SLURM_PROCID' > s.sh; srun -n2 bash < s.sh | sort
-n 2 | mkdir d; srun -n1 -D d pwd
-n 2 | SLURM_NPROCS=1 srun echo one
-n 1 -c 2 | srun sh -c 'echo $SLURM_CPUS_PER_TASK $SLURM_CPUS_ON_NODE'; srun -n2 -c1 echo two
-n 1 -c 2 | export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; srun sh -c 'echo $SLURM_CPUS_PER_TASK'
-n 2 | srun -n1 --mem=50 sh -c 'echo $SLURM_MEM_PER_NODE $SLURM_MEM_PER_CPU'
-n 2 --mem-per-cpu=100 | srun -n1 sh -c 'echo $SLURM_MEM_PER_NODE $SLURM_MEM_PER_CPU'
-n 2 | srun -n1 --mem-per-cpu=20 sh -c 'echo $SLURM_MEM_PER_NODE $SLURM_MEM_PER_CPU'
-n 2 | srun -n1 --exact -c2 sh -c 'echo $SLURM_CPUS_ON_NODE $SLURM_CPUS_PER_TASK'
-n 2 | srun -n1 --exact sh -c 'echo $SLURM_CPUS_ON_NODE'
-n 2 | srun -n1 --export=ALL,A='1 2',B=3 sh -c 'echo "$A" $B'
--export=ALL,A='x y' | echo "$A"
--export=A=1,B=2 | echo $A $B ${OF_USER-unset}
--export=ALL,A= | echo "[${A-unset}]"
-n 2 | srun -n1 sh -c 'exit 256'; echo $?; srun -n1 sh -c 'exit 255'; echo $?
-n 2 | srun -n1 -n2 echo last | wc -l
-n 2 | srun -n1 --ntasks 2 echo last | wc -l
-n 2 | srun --nodes=1-1 -n2 echo r | wc -l
-n 2 | srun -N1-4 -n2 echo r | wc -l
-n 2 | srun -n1 printenv SLURM_JOB_NODELIST SLURM_STEP_NODELIST
-n 2 | srun -n1 --open-mode=append -o f echo 1; srun -n1 --open-mode=append -o f echo 2; srun -n1 -o g echo 3; srun -n1 -o g echo 4; cat f g
-n 2 | srun -n2 -o f -e f sh -c 'echo o; echo e >&2'; sort f
-n 2 | scontrol show job -o $SLURM_JOB_ID | tr ' ' '\n' | grep -E '^(JobId|JobName|JobState|Reason|Dependency|NodeList|WorkDir|StdIn|Power|Comment|Nice)='  | sed "s|$PWD|DIR|"
-n 2 | squeue -h -j $SLURM_JOB_ID -o '%i|%T|%r|%C|%D|%l|%N' | sed "s/$SLURM_JOB_ID/ID/"
-n 1 | exec srun -n1 sh -c 'exit 6'
-n 1 | srun -n1 --gres=none echo none
-n 1 | m() { echo "m $*"; }; export -f m; srun -n1 bash -c 'm list'
-n 1 | printf 'a\nb\n' | while read x; do srun -n1 --input=none echo got $x; done
-n 1 | printf 'a\nb\n' | while read x; do srun -n1 cat; done
"""


def scripts() -> list[tuple[str, str]]:
    """Return the options and the commands of each script."""
    lines = SCRIPTS.strip().splitlines()
    return [(line.partition("|")[0].strip(), line.partition("|")[2].strip()) for line in lines]
