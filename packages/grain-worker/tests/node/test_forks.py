"""Signals in children that user code forks."""

from __future__ import annotations

import subprocess
import sys

# Each line: whether a handler of Grain's is gone, whether the user's is there, what is blocked.
PROGRAM = """
import os, signal
from grain.worker.node.forks import DefaultInChildren

def ours(*_): pass
def theirs(*_): pass

def say(who):
    gone = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    kept = signal.getsignal(signal.SIGHUP) is theirs
    print(who, gone, kept, signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)

signal.signal(signal.SIGTERM, ours)
signal.signal(signal.SIGHUP, theirs)
numbers = [signal.SIGTERM, signal.SIGHUP]
DefaultInChildren(numbers, lambda handler: handler is ours).register()
child = os.fork()
if not child:
    say("child")
    os._exit(0)
os.waitpid(child, 0)
say("parent")
"""


def test_a_forked_child_has_the_default_for_handlers_of_grain_and_keeps_those_of_the_user() -> None:
    """Signals that were blocked while it was forked are so no more, in either process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)

    assert ["child True True set()", "parent False True set()"] == done.stdout.splitlines()
    assert "" == done.stderr
