"""A kernel with other accesses, axes, indices, tensors or values in the places of some, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import is_
from typing import Any, TypeVar

from tkgen.ir.equations import Access, Axis, Index, Value
from tkgen.ir.tensors import Tensor
from tkgen.source import Span

T = TypeVar("T")


Named = Access | Axis | Index | Tensor | Value


def substituted(node: T, others: Mapping[Named, Named]) -> T:
    """`node`, a kernel or a part of one, with what `others` gives for accesses, axes, indices, tensors and values."""
    return _with(node, others)  # type: ignore[no-any-return]


def _with(node: Any, others: Mapping[Named, Named]) -> Any:
    """The same node where nothing in it is another one."""
    if isinstance(node, Named) and node in others:
        return others[node]
    if isinstance(node, tuple):
        made = tuple(_with(part, others) for part in node)
        return node if all(map(is_, made, node)) else made
    changed = {}
    for name in _fields(type(node)):  # type: ignore[arg-type]  # classes are hashable
        before = getattr(node, name)
        if (after := _with(before, others)) is not before:
            changed[name] = after
    return replace(node, **changed) if changed else node


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that has parts; none of anything else."""
    return () if kind is Span or not is_dataclass(kind) else tuple(f.name for f in fields(kind))
