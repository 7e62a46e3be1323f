"""Records that ``scontrol`` shows: a job and the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.cli import show
from grain.cli.slurm_words.facts import hosts_text
from grain.cli.slurm_words.values import long_span, moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.cli.slurm_words.facts import SlurmStep, SlurmTask


def job_record(facts: SlurmTask, *, one_line: bool) -> str:
    """Return the record of a task, as ``scontrol show job`` has it."""
    job = facts.job
    array = ""
    if facts.task is not None:
        array = f" ArrayJobId={facts.number} ArrayTaskId={facts.task}"
    node = facts.node
    end = facts.ended or (facts.began + job.timeout if facts.began and job.timeout else 0.0)
    limit = long_span(job.timeout) if job.timeout else "UNLIMITED"
    licences = facts.option("licenses")
    comment = facts.option("comment", "")
    start = facts.began or (0.0 if facts.run else job.not_before)
    deadline = facts.time(job.deadline, "N/A")
    owner = f"Account={facts.option('account')} QOS={facts.option('qos')}"
    owner += f" WCKey={facts.option('wckey')}" if "wckey" in job.options else ""
    # That of a job that ran; sacct has it for its script only.
    code = "0:15" if facts.state == "CANCELLED" and facts.run else facts.exit_code
    ended = f"Restarts={facts.restarts} BatchFlag=1 Reboot=0 ExitCode={code}"
    numbers = f"NumCPUs={facts.cores} NumTasks={facts.tasks} CPUs/Task={facts.per_task}"
    lines = [
        f"JobId={facts.plain}{array} JobName={job.name}",
        f"UserId={job.user}({facts.uid}) GroupId={job.user}({facts.uid}) MCS_label=N/A",
        f"Priority={job.priority} Nice={-job.priority} {owner}",
        f"JobState={facts.state} Reason={facts.reason} Dependency={facts.dependency or '(null)'}",
        f"Requeue={int(job.requeue)} {ended}",
        f"RunTime={long_span(facts.elapsed)} TimeLimit={limit} TimeMin=N/A",
        f"SubmitTime={facts.time(job.at)} EligibleTime={facts.time(facts.eligible)}",
        f"AccrueTime={facts.time(facts.eligible)}",
        f"StartTime={facts.time(start)} EndTime={facts.time(end)} Deadline={deadline}",
        f"Partition={facts.partition} AllocNode:Sid={job.host}:0",
        f"ReqNodeList={facts.option('nodelist')} ExcNodeList={facts.option('exclude')}",
        f"NodeList={facts.nodelist or '(null)' if facts.state != 'PENDING' else ''}",
        *([f"BatchHost={node}"] * bool(node)),
        f"NumNodes={facts.nodes} {numbers} ReqB:S:C:T=0:0:*:*",
        f"TRES={facts.tres}",
        "Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*",
        f"MinCPUsNode={facts.cores_each} {facts.least_memory} MinTmpDiskNode=0",
        f"Features={facts.option('constraint')} DelayBoot=00:00:00",
        f"OverSubscribe={facts.sharing} Contiguous=0 Licenses={licences} Network=(null)",
        f"Command={facts.command or '(null)'}",
        f"WorkDir={job.directory}",
        *([f"Comment={comment} "] * bool(comment)),
        f"StdErr={facts.stderr}",
        f"StdIn={facts.stdin}",
        f"StdOut={facts.stdout}",
        "Power=",
    ]
    lines = [show.one_line(line) for line in lines]
    if one_line:
        return " ".join(lines) + " \n"
    return "\n   ".join(lines) + "\n   \n\n"


def step_record(step: SlurmStep, *, one_line: bool) -> str:
    """Return the record of a step that runs, as ``scontrol show step`` has it."""
    noted, facts = step.noted, step.task
    script = step.name == "batch"
    tres = "(null)" if script else f"cpu={noted.cpus},node={len(noted.hosts)}"
    began = f"StartTime={facts.time(noted.began)} TimeLimit=UNLIMITED"
    numbers = f"Nodes={len(noted.hosts)} CPUs={0 if script else noted.cpus} Tasks={noted.tasks}"
    lines = [
        f"StepId={step.full_name} UserId={facts.uid} {began}",
        f"State={step.state} Partition={facts.partition} NodeList={hosts_text(noted.hosts)}",
        f"{numbers} Name={noted.name} Network=(null)",
        f"TRES={tres}",
        "ResvPorts=(null)",
        "CPUFreqReq=Default",
        "SrunHost:Pid=(null):0",
    ]
    lines = [show.one_line(line) for line in lines]
    return " ".join(lines) + "\n" if one_line else "\n   ".join(lines) + "\n\n"


def job_data(facts: SlurmTask) -> dict[str, Any]:
    """Return a task as ``squeue --json`` has it; what is not known here is left out."""
    job = facts.job
    until = facts.began + job.timeout if facts.began and job.timeout else 0.0
    size = job.first_choice.get("Memory", 0)
    memory = round(size * 1e9 / 2**20) if isinstance(size, int | float) else 0
    return {
        "account": facts.option("account", ""),
        "array_job_id": 0 if facts.task is None else facts.number,
        "array_task_id": facts.task,
        "batch_flag": True,
        "batch_host": facts.node,
        "cluster": "grain",
        "command": facts.command,
        "comment": facts.option("comment", ""),
        "cpus": facts.cores,
        "current_working_directory": job.directory,
        "dependency": facts.dependency,
        "eligible_time": int(facts.eligible),
        "end_time": int(facts.ended or until),
        "exit_code": int(facts.exit_code.partition(":")[0]) << 8,
        "features": facts.option("constraint", ""),
        "group_id": facts.uid,
        "group_name": job.user,
        "job_id": facts.plain,
        "job_state": facts.state,
        "licenses": facts.option("licenses", ""),
        "memory_per_node": memory or None,
        "name": job.name,
        "nice": -job.priority or None,
        "node_count": facts.nodes,
        "nodes": facts.nodelist,
        "partition": facts.partition,
        "priority": job.priority,
        "qos": facts.option("qos", ""),
        "requeue": job.requeue,
        "restart_cnt": facts.restarts,
        "standard_error": facts.stderr,
        "standard_input": facts.stdin,
        "standard_output": facts.stdout,
        "start_time": int(facts.began or job.not_before),
        "state_reason": facts.reason,
        "submit_time": int(job.at),
        "tasks": facts.tasks,
        "time_limit": int(job.timeout // 60) or None,
        "tres_alloc_str": facts.tres if facts.run else "",
        "tres_req_str": facts.tres,
        "user_id": facts.uid,
        "user_name": job.user,
        "wckey": facts.option("wckey", ""),
    }


def config_text(now: float, values: Mapping[str, str], host: str) -> str:
    """Return the configuration, as ``scontrol show config`` does.

    Args:
        now: Unix seconds.
        values: names and values.
        host: on which the queue is asked for.
    """
    lines = [f"Configuration data as of {moment(now)}"]
    lines += [f"{name:<23} = {value}" for name, value in sorted(values.items(), key=_no_case)]
    return "\n".join(lines) + f"\n\nSlurmctld(primary) at {host} is UP\n"


def _no_case(item: tuple[str, str]) -> str:
    return item[0].lower()
