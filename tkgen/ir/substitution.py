"""A kernel with other accesses, axes, indices, tensors or values in the places of some, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
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
    if isinstance(node, Named) and node in others:
        return others[node]
    if isinstance(node, tuple):
        return tuple(_with(part, others) for part in node)
    if not is_dataclass(node) or isinstance(node, type | Span):
        return node
    return replace(node, **{f.name: _with(getattr(node, f.name), others) for f in fields(node)})
