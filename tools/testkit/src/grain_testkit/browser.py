"""A headless Chromium that a test drives: it opens pages, evaluates scripts, presses keys.

By the DevTools protocol over two pipes, as Chromium offers it with ``--remote-debugging-pipe``: it
needs neither a driver nor a port.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_PATIENCE = 120.0  # seconds for an answer

# Chromium reads from 3 and writes to 4, so this becomes Chromium once the pipes are there.
_START = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    """Return the path of a Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a Chromium.

    Attributes:
        complaints: what it wrote to the console, and errors of scripts and policies.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._numbers = itertools.count(1)
        self._rest = b""
        self._loaded = False
        self._session = ""
        self.complaints: list[str] = []
        target = self._do("Target.createTarget", url="about:blank")["targetId"]
        attached = self._do("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._do(f"{domain}.enable")

    def open(
        self,
        page: Path,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        printed: bool = False,
    ) -> None:
        """Open a page in a window of a size, and wait until it is loaded.

        Args:
            printed: True if the window is to show it in the style in which it is printed.
        """
        self._do(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = "print" if printed else "screen"
        self._do("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._loaded = False
        self._do("Page.navigate", url=page.resolve().as_uri())
        deadline = time.monotonic() + _PATIENCE
        while not self._loaded:
            self._note(self._next(deadline))

    def without_scripts(self) -> None:
        """Have pages that are opened from now on run no scripts."""
        self._do("Emulation.setScriptExecutionDisabled", value=True)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; it may be a promise."""
        answer = self._do(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, as "+" or "ArrowLeft"."""
        text = {"text": key} if len(key) == 1 else {}
        self._do("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._do("Input.dispatchKeyEvent", type="keyUp", key=key)

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        self._do("Browser.close")

    def _do(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        deadline = time.monotonic() + _PATIENCE
        while (answer := self._next(deadline)).get("id") != number:
            self._note(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], left)[0]:
                raise TimeoutError(f"Chromium did not answer within {_PATIENCE} s")
            more = os.read(self._answers, 1 << 16)
            if not more:
                raise EOFError("Chromium has ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])


@contextmanager
def browser(path: str) -> Iterator[Browser]:
    """Run a Chromium; end it with all its processes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        ends = [_high(end) for pair in (os.pipe(), os.pipe()) for end in pair]
        their_in, our_out, our_in, their_out = ends
        options = ["--headless", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        command = [sys.executable, "-c", _START, str(their_in), str(their_out), path, *options]
        try:
            process = subprocess.Popen(
                [*command, f"--user-data-dir={profile}"],
                pass_fds=(their_in, their_out),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=Path(profile),
            )
            os.close(their_in)
            os.close(their_out)
            try:
                one = Browser(our_out, our_in)
                yield one
                one.close()
                process.wait(_PATIENCE)
            finally:
                process.kill()
                process.wait()
        finally:
            os.close(our_out)
            os.close(our_in)


def _high(end: int) -> int:
    """Move the end of a pipe out of the way of 3 and 4."""
    high = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(end)
    return high
