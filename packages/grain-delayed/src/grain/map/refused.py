"""The options of GNU parallel that are missing here, each with what to do in its place.

Users type what they know: an option that exists there and not here is refused with a sentence that
says how its purpose is reached, or why it has none. The names are those of the manual of GNU
parallel 20221122, section OPTIONS.
"""

from __future__ import annotations

_HOSTS = "workers join by `grain up`, and are in the place of hosts by ssh"
_FILES = "workers share a file system with this directory, so no file is transferred"
_STDIN = (
    "a job reads nothing from standard input. Give it files, as after split -n l/8 BIG part-: "
    "grain map --shell 'wc < {}' ::: part-*"
)
_SEVERAL = (
    "each input is one job. Put several values into one line, as by `paste - -`, and add "
    "--colsep '\\t'"
)
_FIXED = "the replacements are fixed: {} {.} {/} {//} {/.} {#} {%} {1} {name}"
_TERMINAL = "jobs have no terminal; run a program that needs one by itself"
_SHOWN = "--dry-run prints the commands, --joblog writes down the ones that ran"
_SEMAPHORE = "for a lock between commands there is flock(1): flock FILE COMMAND"
_LOAD = "a job starts if what it needs is free. State that, as in -r Cores=1,Memory=4"
_SQL = "--results FILE.csv is a table that a database imports; --resume goes on with it"
_CPUS = "-j counts the CPUs that this process may use, as nproc(1) prints them"
_PROFILE = "options are read only from the command line; write a shell script or an alias"
_TMUX = "--results NAME writes outputs to files while jobs run: tail -f NAME/1/stdout"
_NOT_GROUPED = (
    "outputs are printed job by job; --results NAME writes them to files while jobs run: "
    "tail -f NAME/1/stdout"
)

_INSTEAD = {
    ("--arg-sep", "--arg-file-sep"): (
        "the marks are ::: and ::::; give inputs that have such words on standard input"
    ),
    ("--basefile", "--bf", "--cleanup", "--return", "--transfer", "--transferfile", "--tf", "--trc",
     "--rsync-opts"): _FILES,
    ("--basenamereplace", "--bnr", "--basenameextensionreplace", "--bner", "--dirnamereplace",
     "--dnr", "--extensionreplace", "--er", "--seqreplace", "--slotreplace", "-I", "-U",
     "--replace", "-i", "--rpl", "--plus", "--parens"): _FIXED,
    ("--pipe", "--spreadstdin", "--pipe-part", "--pipepart", "--block", "--block-size",
     "--block-timeout", "--bt", "--cat", "--fifo", "--recstart", "--recend", "--regexp",
     "--remove-rec-sep", "--removerecsep", "--rrs", "--round-robin", "--round", "--shard", "--bin",
     "--group-by", "--tee"): _STDIN,
    ("-X", "-m", "-n", "-N", "--max-args", "--max-replace-args", "-L", "-l", "--max-lines",
     "--xargs", "-s", "--max-chars", "-x", "--exit"): _SEVERAL,
    ("--show-limits", "--max-line-length-allowed"): (
        "the system's limit for a command is getconf ARG_MAX"
    ),
    ("--bg", "--fg", "--semaphore", "--sem", "--semaphore-name", "--semaphorename", "--id",
     "--semaphore-timeout", "--semaphoretimeout", "--st", "--wait"): _SEMAPHORE,
    ("--color", "--color-failed", "--cf", "--ctag", "--ctagstring"): (
        "outputs are printed as they are; --tag shows whose they are, --joblog what failed"
    ),
    ("--compress", "--compress-program", "--decompress-program"): (
        "compress in the command, as in --shell 'prog {} | gzip > {.}.gz'"
    ),
    # `-d,` is the same there; here -d detaches, and what follows it is not an option.
    ("--delimiter", "-,", "-;", "-:", "-|", "-\\"): (
        "inputs are lines, or end with a null character with -0, and --colsep splits them into "
        "columns. Convert others, as by tr , '\\n'"
    ),
    ("-E", "--eof", "-e"): "cut the input before, as by sed '/^END$/Q'",
    ("--embed", "--session", "--shebang", "--hashbang", "--shebang-wrap", "--_parset"): (
        "write a shell script that calls grain map"
    ),
    ("--record-env",): "name each variable: --env NAME",
    ("--filter",): "filter the input before, as by grep or awk",
    ("--filter-hosts", "--hostgroups", "--hgrp", "-S", "--sshlogin", "--sshloginfile", "--slf",
     "--ssh", "--ssh-delay", "--sshdelay", "--controlmaster", "-M", "--onall", "--nonall"): _HOSTS,
    ("--interactive", "-p", "--open-tty", "-o", "--tty"): _TERMINAL,
    ("--latest-line", "--ll", "--line-buffer", "--linebuffer", "--lb", "--ungroup", "-u"): (
        _NOT_GROUPED
    ),
    ("--output-as-files", "--outputasfiles", "--files"): (
        "--results NAME writes outputs to NAME/{#}/stdout and NAME/{#}/stderr"
    ),
    ("--limit", "--load", "--memfree", "--memsuspend", "--noswap"): _LOAD,
    ("--link", "--xapply"): (
        "link sources by :::+ and ::::+, as in ::: a b :::+ 1 2; a source that is too short is an "
        "error"
    ),
    ("--minversion", "-V"): "`grain --version` prints the version",
    ("--version",): "it is an option of grain itself: grain --version",
    ("--nice",): "write it before the command: grain map nice -n 10 COMMAND",
    ("--number-of-cpus", "--number-of-cores", "--number-of-sockets", "--number-of-threads",
     "--use-sockets-instead-of-threads", "--use-cores-instead-of-threads",
     "--use-cpus-instead-of-cores"): _CPUS,
    ("--process-slot-var",): "write it before the command: grain map -j 4 env NAME={%} COMMAND",
    ("--profile", "-J", "--tollef"): _PROFILE,
    ("--quote", "-q"): "without --shell, no shell reads the command; leave it out",
    ("--no-run-if-empty",): "without input nothing runs; leave it out",
    ("--retry-failed",): "--resume-failed runs once more what failed",
    ("--shell-completion",): (
        "completion in bash is set up by eval \"$(_GRAIN_COMPLETE=bash_source grain)\""
    ),
    ("--shell-quote",): "for words that are quoted for a shell: printf '%q\\n' WORDS in bash",
    ("--skip-first-line",): (
        "--header : takes the first line for the names of columns; or cut it, as by tail -n +2"
    ),
    ("--sql", "--sql-master", "--sqlmaster", "--sql-and-worker", "--sqlandworker", "--sql-worker",
     "--sqlworker"): _SQL,
    ("--template", "--tmpl"): (
        "write the file in the command, as in --shell 'echo charge={1} > {#}.in; prog {#}.in'"
    ),
    ("--term-seq", "--termseq"): "a job that is ended gets SIGTERM, and SIGKILL after a second",
    ("--tmpdir", "--tempdir"): (
        "the directory for temporary files is TMPDIR: TMPDIR=DIR grain map COMMAND"
    ),
    ("--tmux", "--tmuxpane"): _TMUX,
    ("--total-jobs", "--total"): "inputs are counted while they are read; leave it out",
    ("--trim",): "inputs are taken as they are; trim them before, as by sed 's/^ *//; s/ *$//'",
    ("--verbose", "-t", "-v"): _SHOWN,
    ("--will-cite", "--citation"): "nothing is to be cited; leave it out",
}  # fmt: skip


def instead_of(option: str) -> str | None:
    """Return what to do in the place of an option of GNU parallel; None if it has none such."""
    return next((hint for names, hint in _INSTEAD.items() if option in names), None)
