"""What a kernel must write, kept while orders of the waves are tried: random inputs are the same ones each time.

To compute it takes as long as to emulate a small launch, or longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tkgen.execute.compare import Reference

_MOST = 1 << 22  # elements of all outputs, beyond which nothing is kept: 64 MiB with their bounds
_kept: deque[tuple[object, str, dict[str, Reference]]] = deque(maxlen=2)  # of both kinds of inputs, in turn


def kept(of: object, given: object, make: Callable[[], dict[str, Reference]]) -> dict[str, Reference]:
    """What `make` gives for the object `of`, itself and no equal one, and what else decides it, as it is printed.

    Zeros of both signs are equal, and are not printed alike.
    """
    what = repr(given)
    for one, known, found in tuple(_kept):
        if one is of and known == what:
            return found
    made = make()
    if sum(value.numel() for value, _ in made.values()) <= _MOST:
        _kept.append((of, what, made))
    return made
