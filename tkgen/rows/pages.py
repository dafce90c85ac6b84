"""What lies in pages, laid out place by place as one block finds it: for what judges blocks alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from tkgen.ir.equations import Access, Axis, Index, Load, Loop, Op, When
from tkgen.ir.tiles import picked
from tkgen.rows.launch import RowLaunch
from tkgen.schedule.row_form import accesses

Tensors = Mapping[str, torch.Tensor]


def laid_out(launch: RowLaunch, inputs: Tensors, block: int) -> tuple[RowLaunch, Tensors]:
    """The launch and its inputs with a tensor of all places, `K in pages`, for each that lies in pages."""
    kernel, given = launch.program.kernel, dict(inputs)
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
        given[tensor.name] = _places(launch, inputs, access, at, launch.place(block))

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
    program = replace(launch.program, kernel=replace(kernel, tensors=tensors, body=straight(kernel.body)))
    return replace(launch, program=program), given


def _places(launch: RowLaunch, inputs: Tensors, access: Access, at: int, own: Mapping[Axis, int]) -> torch.Tensor:
    """A tensor whose dimensions `at` and behind it, page and place, are one; zeros in a page that is none."""
    through, axis = access.indices[at].through, access.indices[at].axis
    assert through is not None and axis is not None
    row = tuple(i.at if i.axis is None else own[i.axis] // i.divisor for i in through.indices[:-1])
    pages = inputs[through.tensor.name][row].long()
    found = picked(inputs[access.tensor.name], at, pages).flatten(at, at + 1)
    return found.narrow(at, 0, launch.extents[axis.dim.name])
