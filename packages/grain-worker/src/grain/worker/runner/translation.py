"""The runner's side of a wire: calls out of bytes, outcomes into bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import outcome

from grain.resource import ResourceError, from_data
from grain.worker.errors import PayloadError
from grain.worker.job import Call, name_of
from grain.worker.messages import DefineFunction, Ended, ForgetFunctions, Run
from grain.worker.payload import Payloads, failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.edge.messages import Message, Payload
    from grain.resource import Resource
    from grain.worker.job import Outcome


_KEPT = 1024  # resources that are kept


class WireTranslation:
    """Keeps the functions that have come, and makes objects and bytes of each other.

    Args:
        where: what to call this runner in error messages.
        largest: bytes that an outcome may have.
    """

    def __init__(self, where: str, largest: int = Ended.max_payload) -> None:
        self._payloads = Payloads(where)
        self._largest = largest
        # Loaded when the first run wants them: bytes until then, and what went wrong from then on.
        self._functions: dict[bytes, Any] = {}
        # By their encoding: runs in a row mostly use the same few.
        self._resources: dict[bytes, Resource] = {}

    def learn(self, message: Message, payload: Payload) -> None:
        """Take in a function, or forget one."""
        if isinstance(message, DefineFunction):
            self._functions[message.digest] = payload
        elif isinstance(message, ForgetFunctions):
            for digest in message.digests:
                self._functions.pop(digest, None)

    def decode(self, message: Run, payload: Payload) -> tuple[Run, Call]:
        """See `Translation.decode`."""
        fn = self._function(message.function)
        args, kwargs = self._payloads.load_arguments(payload)
        res = self._resource(message.res)
        run = Run(
            message.task, message.attempt, res, message.limit, message.function, message.chain
        )
        return run, Call(fn, args, kwargs)

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
            if len(self._resources) >= _KEPT:
                self._resources.clear()
            self._resources[key] = res
        return res

    def _function(self, digest: bytes) -> Callable[..., Awaitable[Any]]:
        fn: Any = self._functions.get(digest)
        if fn is None:
            raise PayloadError(
                f"a task names the function {digest.hex() or '(none)'}, which never came"
            )
        if not callable(fn) and not isinstance(fn, PayloadError):
            try:
                fn = self._payloads.load_function(fn)
            except PayloadError as error:
                fn = error
            self._functions[digest] = fn
        if isinstance(fn, PayloadError):
            raise PayloadError(*fn.args)  # each task fails with one of its own
        return fn  # type: ignore[no-any-return]

    def encode(self, ended: Outcome, call: Call | None) -> tuple[Payload, bool]:
        """See `Translation.encode`; what is too large to travel fails the task."""
        name = name_of(call.fn) if call is not None else "this task"
        payload = self._payloads.dump_outcome(ended, name)
        if len(payload) <= self._largest:
            return payload, failed(payload)
        refusal = PayloadError(
            f"the outcome of {name} has {len(payload)} bytes, {self._largest} can travel at most: "
            "write it to a file, and return the path"
        )
        return self._payloads.dump_outcome(outcome.Error(refusal), name), True
