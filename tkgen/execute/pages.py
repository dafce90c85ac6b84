"""Tensors in pages, laid out position by position as one block finds them, for what judges blocks alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from tkgen.ir.equations import Access, Index, Kernel, Load, Loop, Op, When, accesses
from tkgen.ir.sizing import Box, Sizing
from tkgen.ir.tiles import picked

Tensors = Mapping[str, torch.Tensor]


def laid_out(launch: Sizing, inputs: Tensors, box: Box) -> tuple[Kernel, Tensors]:
    """The kernel of a launch and its inputs with a tensor of all places, `K in pages`, for each that lies in pages."""
    (one,) = launch.launches
    kernel, given = one.program.kernel, dict(inputs)
    plain: dict[Access, Access] = {}
    for access in accesses(kernel):
        at = next((n for n, index in enumerate(access.indices) if index.of_page), None)
        if at is None:
            continue
        axis = access.indices[at].axis
        assert axis is not None
        dims = (*access.tensor.dims[:at], axis.dim, *access.tensor.dims[at + 2 :])
        tensor = replace(access.tensor, name=f"{access.tensor.name} in pages", dims=dims)
        plain[access] = Access(tensor, (*access.indices[:at], Index(axis), *access.indices[at + 2 :]))
        places = _places(inputs, access, at, box)
        given[tensor.name] = places.narrow(at, 0, launch.extents[axis.dim.name])
    if not plain:
        return kernel, given

    def straight(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        found: list[Op] = []
        for op in ops:
            if isinstance(op, Load):
                op = replace(op, source=plain.get(op.source, op.source))
            elif isinstance(op, Loop | When):
                op = replace(op, body=straight(op.body))
            found.append(op)
        return tuple(found)

    tensors = (*kernel.tensors, *dict.fromkeys(a.tensor for a in plain.values()))
    return replace(kernel, tensors=tensors, body=straight(kernel.body)), given


def _places(inputs: Tensors, access: Access, at: int, box: Box) -> torch.Tensor:
    """A tensor whose dimensions `at` and after it, page and place, are one; zeros in a page that is none."""
    through = access.indices[at].through
    assert through is not None
    row = tuple(i.at if i.axis is None else box.places[i.axis.name].start // i.divisor for i in through.indices[:-1])
    pages = inputs[through.tensor.name][row].long()
    return picked(inputs[access.tensor.name], at, pages).flatten(at, at + 1)
