"""The back ends, and the choice of one for a target."""

from __future__ import annotations

from tkgen.backends.cdna.backend import Cdna
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.protocol import Backend

BACKENDS: tuple[Backend, ...] = (Cdna(), HopperBackend())


def backend_of(target: str) -> Backend:
    """The back end of a target; of one that nothing knows the first, which says so when it is loaded."""
    return next((b for b in BACKENDS if target in b.targets()), BACKENDS[0])
