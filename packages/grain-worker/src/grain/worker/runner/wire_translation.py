"""The translation of a wire: calls are made of bytes, and bytes of outcomes."""

from __future__ import annotations

import socket
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import msgspec
import outcome

from grain.eventlog.usage import BRIEF, encode_report
from grain.resource import ResourceError, from_data
from grain.worker.call import Call, name_of
from grain.worker.errors import PayloadError, exceeded_memory
from grain.worker.messages import DefineFunction, Ended
from grain.worker.payload import Payloads, failed
from grain.worker.processes.account import cpus_of
from grain.worker.runner.settings import RunnerSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.edge.messages import Payload, WireBytes
    from grain.eventlog.usage import Report
    from grain.resource import Resource
    from grain.worker.call import Outcome, RunSettings
    from grain.worker.messages import ForgetFunctions, StartRun
    from grain.worker.processes.account import RunAccount

    Tasklet = Callable[..., Awaitable[Any]]

_RESOURCES = 1024  # resources that are remembered

FROM_LANES = 64_000_000
"""Bytes of functions that are kept although they came only through lanes. The next lane of their
mission may call them again, and a function may hold data that it uses again."""

_OBJECT = 10_000  # bytes that a function takes besides its data, roughly


class WireTranslation:
    """The translation between bytes and objects, with the functions that have arrived.

    Args:
        largest: the most bytes that an outcome may have.
        interruptible: as of `Payloads`.
    """

    def __init__(
        self,
        where: str,
        largest: int = Ended.max_payload,
        settings: RunnerSettings = RunnerSettings(),  # noqa: B008 - it is frozen
        worker: str = "",
        *,
        interruptible: bool = True,
    ) -> None:
        self._worker = worker
        self._host = socket.gethostname()
        self._payloads = Payloads(where, settings.unsearched, interruptible=interruptible)
        self._settings = Settings(settings)
        self._largest = largest
        # A function is loaded when the first run calls it: what it imports may take long, and what
        # goes wrong is an error of the runs that call it.
        self._unloaded: dict[bytes, WireBytes] = {}
        self._loaded: dict[bytes, Tasklet | PayloadError] = {}
        # Those that came by lanes only, with their bytes, the one called last at the end: as no
        # head knows of them, none has them forgotten.
        self._from_lanes: dict[bytes, int] = {}
        # By their encoding: successive runs mostly use the same few.
        self._resources: dict[bytes, Resource] = {}
        # The CPUs of these, by identity.
        self._cpus: dict[int, tuple[Resource, tuple[int, ...]]] = {}

    def learn(self, message: DefineFunction | ForgetFunctions, payload: Payload) -> None:
        """See `Translation.learn`."""
        if isinstance(message, DefineFunction):
            self._loaded.pop(message.digest, None)
            self._from_lanes.pop(message.digest, None)
            if payload is not None:
                self._unloaded[message.digest] = payload
        else:
            for digest in message.digests:
                self._forget(digest)

    def _forget(self, digest: bytes) -> None:
        self._unloaded.pop(digest, None)
        self._loaded.pop(digest, None)
        self._from_lanes.pop(digest, None)

    def learn_once(self, digest: bytes, function: Payload) -> None:
        """See `Translation.learn_once`."""
        if function is None:
            return
        size = self._from_lanes.pop(digest, 0)
        if not size and (digest in self._loaded or digest in self._unloaded):
            return
        self._from_lanes[digest] = size or _OBJECT + len(function)
        if not size:
            self._unloaded[digest] = function
            kept = sum(self._from_lanes.values())
            while kept > FROM_LANES and len(self._from_lanes) > 1:
                oldest = next(iter(self._from_lanes))
                kept -= self._from_lanes[oldest]
                self._forget(oldest)

    def decode(self, run: StartRun, payload: Payload) -> tuple[Call, Resource, RunSettings | None]:
        """See `Translation.decode`."""
        if run.gang is not None and run.gang.index:
            # A seat calls no function; `grain.worker.runner.runner` has one for it.
            return Call(_no_call, (), {}), self._resource(run.res), self._settings.of(run, _no_call)
        if payload is None:
            raise PayloadError("a task came without its arguments")
        # In a context of its own: what users' code sets while it is loaded, such as the precision
        # of decimals, is not for the tasks that begin in the caller's context.
        call = copy_context().run(self._load_call, run.function, payload)
        return call, self._resource(run.res), self._settings.of(run, call.fn)

    def _load_call(self, function: bytes, payload: WireBytes) -> Call:
        return Call(self._function(function), *self._payloads.load_arguments(payload))

    def _resource(self, data: dict[str, Any]) -> Resource:
        key = msgspec.msgpack.encode(data)
        res = self._resources.get(key)
        if res is None:
            try:
                res = from_data(data)
            except (ResourceError, ValueError) as error:
                raise PayloadError(
                    f"the resources of this task are not known here: {error}"
                ) from error
            if len(self._resources) >= _RESOURCES:
                self._resources.clear()
                self._cpus.clear()
            self._resources[key] = res
        return res

    def _function(self, digest: bytes) -> Tasklet:
        fn = self._loaded.get(digest)
        if fn is None:
            fn = self._loaded[digest] = self._load(digest)
        if isinstance(fn, PayloadError):
            raise PayloadError(*fn.args)  # each task fails with an exception of its own
        return fn

    def _load(self, digest: bytes) -> Tasklet | PayloadError:
        function = self._unloaded.pop(digest, None)
        if function is None:
            raise PayloadError(
                f"a task names the function {digest.hex() or '(none)'}, which never came"
            )
        try:
            return self._payloads.load_function(function)
        except PayloadError as error:
            return error

    def encode_report(self, account: RunAccount, ended: Outcome | None) -> Report:
        """See `Translation.encode_report`."""
        if account.ran is None and type(ended) is outcome.Value:
            seconds = account.ended - account.started
            if 0.0 <= seconds <= BRIEF:
                return seconds
        res = account.res
        entry = self._cpus.get(id(res))
        if entry is None or entry[0] is not res:
            entry = self._cpus[id(res)] = res, cpus_of(res)
        exceeded = type(ended) is outcome.Error and exceeded_memory(ended.error)
        return encode_report(account.report(self._host, self._worker, entry[1], exceeded=exceeded))

    def encode(self, ended: Outcome, call: Call | None) -> tuple[WireBytes, bool]:
        """See `Translation.encode`; an outcome that is too large to travel fails the task."""
        name = name_of(call.fn) if call is not None else "this task"
        payload = self._payloads.dump_outcome(ended, name)
        if len(payload) <= self._largest:
            return payload, failed(payload)
        refusal = PayloadError(
            f"the outcome of {name} has {len(payload)} bytes, {self._largest} can travel at most: "
            "write it to a file, and return the path"
        )
        return self._payloads.dump_outcome(outcome.Error(refusal), name), True


async def _no_call() -> None:
    """Do nothing: see `WireTranslation.decode`."""
