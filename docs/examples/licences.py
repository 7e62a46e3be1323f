"""A pool of named licences: a task asks for a number of them and gets their names."""

from grain.resource import Resource


class Licences(Resource):
    """``Licences(2)`` asks for any two; a worker owns ``Licences(["qc-1", "qc-2", "qc-3"])``."""

    def __init__(self, names: "int | list[str]") -> None:
        self.names = sorted(map(str, range(names)) if isinstance(names, int) else names)
        self._owned = len(self.names)

    def _request(self, res: "Licences") -> bool:
        return len(res.names) <= len(self.names)

    def _alloc(self, res: "Licences") -> "Licences":
        taken, self.names = self.names[: len(res.names)], self.names[len(res.names) :]
        return Licences(taken)

    def _dealloc(self, res: "Licences") -> None:
        self.names = sorted(self.names + res.names)

    def _repr(self) -> str:
        return f"Licences({self.names})"

    def _stat(self) -> tuple[int, int]:
        return len(self.names), self._owned
