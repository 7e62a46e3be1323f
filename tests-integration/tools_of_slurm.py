"""What tools that speak Slurm call: recorded from each one's smallest example.

``JOB`` stands for the number of a job, ``ME`` for the user's name.
"""

from __future__ import annotations

SUBMISSIONS = {
    "snakemake-executor-plugin-slurm 2.8.0": [
        "--parsable", "--job-name", "5c43f8c1-5d0c-4c55-9d33-1b7a2a4f0d11", "--output",
        "log/%j.log", "--export=ALL", "--comment", "rule_one_wildcards_1", "-A", "acct", "-p",
        "main", "-t", "5", "--mem", "100", "--ntasks=1", "--cpus-per-task=2", "-D", ".",
        "--wrap=true",
    ],
    "snakemake-executor-plugin-slurm 2.8.0, array": [
        "--parsable", "--job-name", "x", "--output", "log/%A_%a.log", "--export=ALL", "--comment",
        "rule_one_wildcards_0", "-A", "acct", "-p", "main", "-t", "5", "--mem", "101",
        "--ntasks=1", "--cpus-per-task=2", "-D", ".", "--array=1-2", "--wrap=true",
    ],
    "toil 9.6.0": [
        "-J", "toil_job_1_root", "--signal=B:USR2@30",
        "--export=ALL,TOIL_RT_LOGGING_LEVEL=INFO,OMP_NUM_THREADS=1", "--partition=main",
        "--mem=96", "--cpus-per-task=1", "--time=0:600", "-o", "toil.%j.out.log", "-e",
        "toil.%j.err.log", "--wrap=exec true",
    ],
    "myqueue 26.8.1": [
        "--job-name=shell:true", "--time=5", "--ntasks=2", "--cpus-per-task=1", "--nodes=1",
        "--chdir=.", "--output=shell:true.%j.out", "--error=shell:true.%j.err", "--partition=main",
    ],
    "maestrowf 1.2.1": ["-D", "."],
    "nextflow 26.08, by its source": [],
}  # fmt: skip
"""Command lines of sbatch, without the script."""

SCRIPTS = {
    "aiida-core 2.9.4": """\
#!/bin/bash
#SBATCH --no-requeue
#SBATCH --job-name="aiida-4"
#SBATCH --get-user-env
#SBATCH --output=_scheduler-stdout.txt
#SBATCH --error=_scheduler-stderr.txt
#SBATCH --partition=main
#SBATCH --account=acct
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:10:00
#SBATCH --mem=97
""",
    "parsl 2026.10.26": """\
#!/bin/bash

#SBATCH --job-name=parsl.h.block-0.1795416385.8841248
#SBATCH --output=runinfo/parsl.stdout
#SBATCH --error=runinfo/parsl.stderr
#SBATCH --nodes=1
#SBATCH --time=10
#SBATCH --ntasks-per-node=1

#SBATCH --partition=main
#SBATCH --account=acct
#SBATCH --mem=1g
#SBATCH --cpus-per-task=2
""",
    "dask-jobqueue 0.9.0": """\
#!/usr/bin/env bash

#SBATCH -J dask-worker
#SBATCH -p main
#SBATCH -A acct
#SBATCH -n 1
#SBATCH --cpus-per-task=2
#SBATCH --mem=954M
#SBATCH -t 00:10:00
""",
    "submitit 1.5.4": """\
#!/bin/bash

# Parameters
#SBATCH --array=0-2%2
#SBATCH --cpus-per-task=2
#SBATCH --error=logs/%A_%a_0_log.err
#SBATCH --job-name=submitit
#SBATCH --mem=1GB
#SBATCH --nodes=1
#SBATCH --open-mode=append
#SBATCH --output=logs/%A_%a_0_log.out
#SBATCH --partition=main
#SBATCH --signal=USR2@90
#SBATCH --time=5
#SBATCH --wckey=submitit
""",
    "psij-python 0.9.11": """\
#!/bin/bash


#SBATCH --nodes=1

#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=2


#SBATCH --cpus-per-task=1
#SBATCH --time=0:5:0
#SBATCH --partition="main"
#SBATCH --account="acct"
#SBATCH -e /dev/null
#SBATCH -o /dev/null
#SBATCH --export=ALL
""",
    "pysqa 1.1.0, executorlib 1.11.0": """\
#!/bin/bash
#SBATCH --output=time.out
#SBATCH --job-name=c
#SBATCH --chdir=.
#SBATCH --get-user-env=L
#SBATCH --partition=main
#SBATCH --time=10
#SBATCH --mem=1G
#SBATCH --cpus-per-task=2
""",
    "qtoolkit 0.1.7": """\
#!/bin/bash
#SBATCH --partition=main
#SBATCH --job-name=jn
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=100
#SBATCH --time=0-0:10:0
#SBATCH --account=acct
#SBATCH --output=queue.out
#SBATCH --error=queue.err
""",
    "FireWorks 2.1.4": """\
#!/bin/bash -l

#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --time=00:05:00
#SBATCH --partition=main
#SBATCH --account=acct
#SBATCH --job-name=fwj
#SBATCH --output=fwj-%j.out
#SBATCH --error=fwj-%j.error
""",
    "maestrowf 1.2.1": """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --partition=main
#SBATCH --account=acct
#SBATCH --time=00:05:00
#SBATCH --job-name="a"
#SBATCH --output="a.out"
#SBATCH --error="a.err"
#SBATCH --comment "d"
""",
    "signac-flow 0.29.1": """\
#!/bin/bash
#SBATCH --job-name="Pr/39e6c3345cb6c0d889ee4729a7444bd8/op/e591de66865468643ecc316cddd5f828"
#SBATCH --partition=main
#SBATCH -t 00:06:00
#SBATCH --nodes=1
#SBATCH --ntasks=1
""",
    "cylc-flow 8.5.4": """\
#!/bin/bash -l
# ++++ THIS IS A CYLC JOB SCRIPT ++++
# DIRECTIVES:
#SBATCH --job-name=a.1.w1/run1
#SBATCH --output=cylc-run/w1/run1/log/job/1/a/01/job.out
#SBATCH --error=cylc-run/w1/run1/log/job/1/a/01/job.err
#SBATCH --time=5:00
#SBATCH --partition=main
""",
    "nextflow 26.08, by its source": """\
#!/bin/bash
#SBATCH -J nf-align_(1)
#SBATCH -o "work/a b/.command.log"
#SBATCH --no-requeue
#SBATCH --signal B:USR2@30
#SBATCH -c 2
#SBATCH -t 00:10:00
#SBATCH --mem 100M
#SBATCH -p main
#SBATCH -A acct
""",
    "nextflow 26.08, an array, by its source": """\
#!/bin/bash
#SBATCH --array 0-3
#SBATCH -J nf-align
#SBATCH -o /dev/null
#SBATCH --no-requeue
#SBATCH --signal B:USR2@30
#SBATCH --mem-per-cpu 50M
""",
    "simple-slurm 0.3.6": """\
#!/bin/sh

#SBATCH --array               0-1
#SBATCH --job-name            n2
#SBATCH --output              %A_%a.out
#SBATCH --wait
""",
}
"""Scripts with their directives."""

LISTS = {
    "aiida-core 2.9.4": (
        ["--noheader", "-o", "%i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%M^^^%S^^^%j^^^%V",
         "--jobs=JOB,JOB"],
        (r"JOB\^\^\^R\^\^\^None\^\^\^n7\^\^\^ME\^\^\^1\^\^\^2\^\^\^n7\^\^\^main\^\^\^10:00\^\^\^"
        r"0:1\d\^\^\^[\dT:-]{19}\^\^\^name\^\^\^[\dT:-]{19}"),
    ),
    "cylc-flow 8.5.4": (
        ["-h", "-j", "JOB"], r" +JOB +main +name +ME +R +0:1\d +1 n7",
    ),
    "FireWorks 2.1.4": ([' -o "%u"'.strip(), "-u", "ME", "-h", "-p", "main"], r' ?"ME"'),
    "maestrowf 1.2.1": (
        ["-u", "ME", "-t", "all", "--format=%.18i %.8j %.8u %.2t"],
        r" +JOBID +NAME +USER ST\n +JOB     name +ME  R",
    ),
    "myqueue 26.8.1": (["--user", "ME"], r" +JOBID .*\n +JOB .*"),
    "nextflow 26.08, by its source": (
        ["--noheader", "-o", "%i %t", "-t", "all", "-p", "main", "-u", "ME"], r"JOB R",
    ),
    "nextflow 26.08 with onlyJobState, by its source": (
        ["--noheader", "-o", "%i %t", "-t", "all", "--only-job-state"], r"JOB R",
    ),
    "Parsl and QCFractal, by their source": (
        ["--noheader", "--format=%i %t", "--job", "JOB"], r"JOB R",
    ),
    "psij-python 0.9.11": (
        ["-O", "JobArrayID,StateCompact,Reason", "-t", "all", "--me"],
        r"JOBID {15}ST {18}REASON {14}\nJOB {15,19}R {19}None {16}",
    ),
    "pysqa 1.1.0": (
        ["--format", "%A|%u|%t|%.15j|%Z", "--noheader"], r"JOB\|ME\|R\| {11}name\|/.*",
    ),
    "qtoolkit 0.1.7": (
        ["--noheader", "-o",
         "%i<><> %t<><> %r<><> %j<><> %u<><> %P<><> %l<><> %D<><> %C<><> %M<><> %m",
         "--jobs=JOB,JOB"],
        r"JOB<><> R<><> None<><> name<><> ME<><> main<><> 10:00<><> 1<><> 2<><> 0:1\d<><> 97M",
    ),
    "row, by its source": (["--jobs", "JOB", "--noheader"], r" +JOB .*"),
    "signac-flow 0.29.1": (["-u", "ME", "-h", "--format=%2t%100j"], r"R name {96}"),
    "simple-slurm 0.3.6": (
        ["--me", "-o", '"%i","%j","%t","%M","%L","%D","%C","%m","%b","%R"'],
        r'"JOBID","NAME",.*\n"JOB","name","R","0:1\d","9:4\d","1","2","97M","N/A","n7"',
    ),
    "snakemake-executor-plugin-slurm 2.8.0": (
        ["--format=%i|%T", "--states=all", "--noheader", "--name", "name"], r"JOB\|RUNNING",
    ),
    "toil 9.6.0": (["-h", "--format", "%i %t %M"], r"JOB R 0:1\d"),
}  # fmt: skip
"""Command lines of squeue for a job that runs, with the form that the tool reads."""

ACCOUNTS = {
    "snakemake-executor-plugin-slurm 2.8.0": (
        ["-X", "--parsable2", "--clusters", "all", "--noheader", "--format=JobIdRaw,State",
         "--starttime", "2026-11-21T06:00", "--endtime", "now", "--name", "name"],
        r"JOB\|FAILED",
    ),
    "snakemake-executor-plugin-slurm 2.8.0, after a failure": (
        ["-j", "JOB.0", "--format=Reason", "--noheader"], r"",
    ),
    "submitit 1.5.4": (
        ["-o", "JobID,State,NodeList", "--parsable2", "-j", "JOB", "-j", "JOB"],
        r"JobID\|State\|NodeList\nJOB\|FAILED\|n7\nJOB.batch\|FAILED\|n7",
    ),
    "parsl 2026.10.26": (["-X"], r"JobID {10} JobName .*\n-{12} -{10} .*\nJOB .* FAILED {6}3:0 "),
    "Parsl and QCFractal, by their source": (
        ["-X", "--noheader", "--format=jobid,state%20", "--job", "JOB"], r"JOB +FAILED ",
    ),
    "toil 9.6.0, by its source": (
        ["-n", "-j", "JOB", "--format", "JobIDRaw,State,ExitCode", "-P", "-S", "1970-01-01"],
        r"JOB\|FAILED\|3:0\nJOB.batch\|FAILED\|3:0",
    ),
    "aiida-core 2.9.4": (
        ["--format=ALL", "--parsable", "--jobs=JOB"], r"Account\|.*\|\n.*\|FAILED\|.*\|\n.*\|",
    ),
    "myqueue 26.8.1, by its source": (
        ["-j", "JOB", "-n", "--units=K", "-o", "MaxRSS"], r" +\n +976562K ",
    ),
}  # fmt: skip
"""Command lines of sacct for a job that has failed, with the form that the tool reads."""
