"""`Token`: a tag by which tasks and workers match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.base import Resource

if TYPE_CHECKING:
    from typing_extensions import Self


class Token(Resource):
    """A tag: a task that carries one runs only on a worker with exactly that one.

    Any number of tasks may carry it at once, and a worker with a token also takes tasks without.

    Attributes:
        token: the tag.

    Raises:
        TypeError: the tag is not a str.
        ValueError: the tag is empty.
    """

    __slots__ = ("token",)
    _kind = "Token"
    _exports = ("token",)

    def __init__(self, token: str) -> None:
        if not isinstance(token, str):
            raise TypeError(f"Token({token!r}): a tag is a str")
        if not token:
            raise ValueError("Token(''): a tag cannot be empty")
        self.token = token

    def _request(self, res: Self) -> bool:
        return res.token == self.token

    def _alloc(self, res: Self) -> Self:
        return res

    def _dealloc(self, res: Self) -> None:
        pass

    def _repr(self) -> str:
        return f"Token({self.token!r})"

    def _stat(self) -> tuple[int, int]:
        return (1, 1)

    def _data(self) -> str:
        return self.token
