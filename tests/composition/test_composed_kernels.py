"""Each accepted cell of the table feature x kernel, built and run at the sizes of its spec, beside plain torch.

On AMD's targets the machine code runs on the emulator, for Hopper the generated C++ on the CPU. Sums of the inputs are
exact (`Inputs.EXACT`), so a product that is lost or added twice shows.
"""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from collections.abc import Callable, Mapping

import pytest
import torch
from cells import TARGETS, Cell, cells
from torch import Tensor
from torch.nn import functional

from tkgen.api import load
from tkgen.backends.registry import backend_of
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.execute.launch import computed
from tkgen.execute.modelled import in_order

DYNAMIC = {"M": 384, "N": 128, "K": 192, "HEADS": 3, "LENGTH": 200, "KEYS": 150, "ROWS": 37, "TOKENS": 250}
SAMPLE = 14  # of so many kernels one runs by default
Tensors = Mapping[str, Tensor]


def product(t: Tensors) -> dict[str, Tensor]:
    return {"C": t["A"] @ t["B"].T}


def attention(t: Tensors) -> dict[str, Tensor]:
    weights = torch.softmax(t["Q"] @ t["K"].mT * 0.125, -1)
    return {"O": weights @ t["V"]}


def rows(t: Tensors) -> dict[str, Tensor]:
    return {"Y": torch.softmax(t["X"], -1)}


def members(first: Tensor, count: int) -> list[slice]:
    """The places of each group, whatever the offsets are."""
    ends = [min(max(int(first[: i + 1].max()), 0), count) for i in range(len(first))]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def by_group(t: Tensors, rows: str, weights: str) -> Tensor:
    found = torch.zeros(t[rows].shape[0], t[weights].shape[1], dtype=torch.double)
    for expert, own in enumerate(members(t["FIRST"], len(found))):
        found[own] = t[rows][own] @ t[weights][expert].T
    return found


def groups(t: Tensors) -> dict[str, Tensor]:
    return {"Y": by_group(t, "X", "W")}


def scaled(of: Tensor, name: str) -> dict[str, Tensor]:
    """A matrix whose tiles of 128 columns are in units of their largest magnitude, and these."""
    tiles = of.unflatten(-1, (-1, 128))
    most = tiles.abs().amax(-1).clamp(min=1e-30)
    return {name: (tiles / most[..., None]).flatten(-2), "S": most}


def packed(t: Tensors) -> dict[str, Tensor]:
    found = torch.zeros_like(t["Q"])
    for own in members(t["FIRST"], t["Q"].shape[1]):
        found[:, own] = attention({name: t[name][:, own] for name in "QKV"})["O"]
    return {"O": found}


def ragged_sums(t: Tensors) -> dict[str, Tensor]:
    return {"Y": torch.stack([t["W"][own].T @ t["X"][own] for own in members(t["FIRST"], len(t["X"]))])}


def moved(rows: Tensor, to: Tensor) -> Tensor:
    """Each row at its position, where those of equal positions are added up. Some positions are outside."""
    there = (to >= 0) & (to < len(rows))
    return torch.zeros_like(rows).index_add(0, to[there], rows[there])


def copied(before: Tensor, to: Tensor, rows: Tensor) -> Tensor:
    """The same with what is there before, and positions that differ."""
    there = (to >= 0) & (to < len(rows))
    return before.index_copy(0, to[there].long(), rows[there])


def scaled_rows(t: Tensors) -> dict[str, Tensor]:
    found = rows(t)["Y"]
    for group, own in enumerate(members(t["FIRST"], len(found))):
        found[own] *= t["S"][group]
    return {"Y": found}


def sums(t: Tensors) -> Tensor:
    """The logarithms to base 2 of the sums of attention."""
    return torch.logsumexp(t["Q"] @ t["K"].mT * 0.125, -1) / math.log(2)


def parts(t: Tensors) -> dict[str, Tensor]:
    halves = [{"Q": t["Q"], "K": t["K"].chunk(2, 1)[i], "V": t["V"].chunk(2, 1)[i]} for i in range(2)]
    return {"O": torch.stack([attention(h)["O"] for h in halves]), "L": torch.stack([sums(h) for h in halves])}


def attention_scaled(t: Tensors) -> dict[str, Tensor]:
    found = attention(t)["O"]
    most = found.abs().amax(-1).clamp(min=1e-30)
    return {"O": found / most[..., None], "S": most}


def attention_columns(t: Tensors) -> dict[str, Tensor]:
    found = attention(t)["O"]
    return {"O": found, "S": found.square().unflatten(1, (-1, 128)).sum(2)}


def attention_normed(t: Tensors) -> dict[str, Tensor]:
    found = attention(t)["O"]
    return {"O": found * found.square().mean(-1, True).rsqrt()}


KERNELS: dict[str, Callable[[Tensors], dict[str, Tensor]]] = {
    "product": product, "attention": attention, "rows": rows, "groups": groups,
}  # fmt: skip
# What a cell computes, where that is another thing than its kernel does.
CELLS: dict[str, Callable[[Tensors], dict[str, Tensor]]] = {
    "split-K and parts of attention": parts,
    "split-K and parts of rows": lambda t: {"Y": t["X"].unflatten(0, (2, -1)).sum(1)},
    "groups of product": lambda t: {"C": by_group(t, "A", "B")},
    "groups of attention": packed,
    "groups of rows": scaled_rows,
    "groups of groups": ragged_sums,
    "low precision of attention": lambda t: attention({**t, "V": t["V"].mT}),
    "low precision of rows": lambda t: {"Y": 200 * torch.softmax(t["X"], -1)},
    "epilogues of product": lambda t: {"C": functional.gelu(t["A"] @ t["B"].T + t["v"])},
    "epilogues of attention": lambda t: {"O": functional.silu(t["G"]) * attention(t)["O"]},
    "epilogues of rows": lambda t: {"Y": functional.gelu(torch.softmax(t["X"], -1))},
    "epilogues of groups": lambda t: {"Y": functional.gelu(by_group(t, "X", "W") + with_bias(t))},
    "reductions after a product of product": lambda t: scaled(t["A"] @ t["B"].T, "C"),
    "reductions after a product of attention": attention_scaled,
    "reductions after a product of groups": lambda t: scaled(by_group(t, "X", "W"), "Y"),
    "reductions of columns of product": lambda t: (
        product(t) | {"S": product(t)["C"].square().unflatten(0, (-1, 128)).sum(1)}
    ),
    "reductions of columns of attention": attention_columns,
    "reductions of columns of rows": lambda t: {"Y": t["X"].sum(0)},
    "several outputs of product": lambda t: product(t) | {"G": t["A"] @ t["E"].T},
    "several outputs of attention": lambda t: attention(t) | {"L": sums(t)},
    "several outputs of rows": lambda t: rows(t) | {"L": torch.logsumexp(t["X"], -1)},
    "several outputs of groups": lambda t: groups(t) | {"G": by_group(t, "X", "V")},
    "stores to computed positions of product": lambda t: {"C": moved(product(t)["C"], t["ROW"])},
    "stores to computed positions of rows": lambda t: {"Y": copied(t["Y"], t["ROW"], rows(t)["Y"])},
    "stores to computed positions of groups": lambda t: {"Y": moved(groups(t)["Y"], t["ROW"])},
    "sequences of product": lambda t: {"C": functional.normalize(t["A"] @ t["B"].T, 1.0, -1)},
    "sequences of attention": attention_normed,
    "sequences of groups": lambda t: {"Y": functional.normalize(by_group(t, "X", "W"), 1.0, -1)},
}


def with_bias(t: Tensors) -> Tensor:
    found = torch.zeros(t["X"].shape[0], t["v"].shape[1], dtype=torch.double)
    for expert, own in enumerate(members(t["FIRST"], len(found))):
        found[own] = t["v"][expert]
    return found


ROUNDOFF = {
    torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float8_e4m3fn: 2.0**-4, torch.float8_e4m3fnuz: 2.0**-4,
}  # fmt: skip

LEAST = {torch.float8_e4m3fn: 2.0**-10, torch.float8_e4m3fnuz: 2.0**-11}  # half of the least number


@functools.cache
def accepted() -> list[tuple[str, str]]:
    return [(cell.name, t) for cell in cells() for t in TARGETS if cell.specs and t not in cell.refusals]


def by_default(name: str, target: str) -> bool:
    """A sample that has something of everything, and stays as it is when cells are added."""
    return target != "gfx90a" and zlib.crc32(f"{name} {target}".encode()) % SAMPLE == 0


def run(cell: Cell, target: str) -> tuple[list[Tensors], Tensors]:
    """Results of each executor for the kernel of the cell, and its inputs."""
    spec = load(cell.specs[target], target=target).check()
    launch = spec.launch({d.name: DYNAMIC[d.name] for d in spec.program.dims if d.size is None})
    backend = backend_of(target)
    inputs = random_inputs(launch, 1, Inputs.EXACT, backend.functions)
    if "FIRST" in inputs:
        most = launch.extents[next(d for d in ("TOKENS", "M", "LENGTH", "ROWS") if d in launch.extents)]
        inputs["FIRST"] = torch.tensor([0, most // 3 + 1, most // 3 + 1, most], dtype=torch.int32)  # one is empty
    if backend.interpreter is None:
        return [computed(spec.build(), launch, inputs, {})], inputs
    outputs = list[Tensors]()
    for executor in backend.executors.values():
        (order,) = executor.orders(1)
        made = in_order(executor, spec, launch, inputs, {}, order)
        assert not made.findings
        outputs.append(made.outputs)
    return outputs, inputs


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, marks=() if by_default(name, target) else pytest.mark.slow)
        for name, target in accepted()
    ],
)
def test_an_accepted_cell_computes_what_torch_does(name: str, target: str) -> None:
    (cell,) = (cell for cell in cells() if cell.name == name)
    made, inputs = run(cell, target)
    wide = {n: x if x.dtype is torch.int32 else x.double() for n, x in inputs.items()}
    wanted = CELLS.get(name, KERNELS[cell.kernel])(wide)
    assert wanted.keys() == {t.name for t in load(cell.specs[target], target=target).program.outputs}
    # A fused matmul rounds its weights to bf16, or to 8 bits.
    weights = 0.0
    if cell.kernel == "attention":
        weights = 2.0 ** (-4 if inputs["V"].element_size() == 1 else -8) * float(wide["V"].abs().max())
    for outputs, (output, value) in itertools.product(made, wanted.items()):
        found = outputs[output]
        allowed = ROUNDOFF[found.dtype] * value.abs() + LEAST.get(found.dtype, 0.0) + 2.0**-11 * value.abs().max()
        assert ((found.double() - value).abs() <= allowed + weights).all(), output


def test_cells_of_another_computation_are_there() -> None:
    assert CELLS.keys() <= {cell.name for cell in cells()}
