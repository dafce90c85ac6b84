"""Hashes that are computed once: passes and proofs look values and operations up by what they are, again and again."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

_KEY = "_hash"


def hashed_once(cls: type[T]) -> type[T]:
    """Make a frozen dataclass keep its hash. Hashes of texts differ between processes, so no pickle has it."""
    compute = cls.__hash__

    def __hash__(self: Any) -> int:
        found: int | None = self.__dict__.get(_KEY)
        if found is None:
            found = self.__dict__[_KEY] = compute(self)
        return found

    def __getstate__(self: Any) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _KEY}

    cls.__hash__ = __hash__  # type: ignore[method-assign]
    cls.__getstate__ = __getstate__  # type: ignore[method-assign]
    return cls
