"""A repr of NumPy arrays that takes one short line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_EDGE = 3  # items shown at either end


def set_numpy_oneline_repr() -> None:
    """Set ``repr`` of every NumPy array in this process to one short line.

    It has dtype, shape, and the first and last three items: for logs of tasks whose arguments are
    large arrays. ``str`` and ``print`` of an array stay as they are. It is undone by
    ``numpy.set_printoptions(override_repr=None)``, or before NumPy 2 by
    ``numpy.set_string_function(None)``.

    Raises:
        ImportError: NumPy is not installed.
        RuntimeError: this version of NumPy has no such setting.
    """
    import numpy as np

    try:
        np.set_printoptions(override_repr=_oneline)
    except TypeError:  # NumPy 1, which has no such option
        set_function: Any = getattr(np, "set_string_function", None)
        if set_function is None:
            raise RuntimeError(
                f"NumPy {np.__version__} has no setting for the repr of arrays: use a newer one"
            ) from None
        set_function(_oneline, repr=True)


def _oneline(array: np.ndarray[Any, Any]) -> str:
    import numpy as np

    # Only the items that are shown: no copy of a large array.
    size = array.size
    shown = range(size) if size <= 2 * _EDGE else [*range(_EDGE), *range(size - _EDGE, size)]
    items = np.empty(len(shown), array.dtype)
    for i, index in enumerate(shown):
        items[i] = array.flat[index]
    words = [
        np.array2string(items[i : i + 1], precision=4, max_line_width=10**6)[1:-1]
        for i in range(len(items))
    ]
    if size > 2 * _EDGE:
        words.insert(_EDGE, "...")
    shape = "x".join(map(str, array.shape)) or "0-d"
    return " ".join(f"<array {array.dtype} {shape}: {' '.join(words)}>".split())
