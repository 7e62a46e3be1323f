"""Scratch disks of a node: a task asks for a number of them and gets their names."""

from grain.resource import Resource


class Disks(Resource):
    """``Disks(2)`` asks for any two; a worker owns ``Disks(["nvme0", "nvme1", "nvme2"])``."""

    def __init__(self, names: "int | list[str]") -> None:
        self.names = sorted(map(str, range(names)) if isinstance(names, int) else names)
        self._owned = len(self.names)

    def _request(self, res: "Disks") -> bool:
        return len(res.names) <= len(self.names)

    def _alloc(self, res: "Disks") -> "Disks":
        taken, self.names = self.names[: len(res.names)], self.names[len(res.names) :]
        return Disks(taken)

    def _dealloc(self, res: "Disks") -> None:
        self.names = sorted(self.names + res.names)

    def _repr(self) -> str:
        return f"Disks({self.names})"

    def _stat(self) -> tuple[int, int]:
        return len(self.names), self._owned
