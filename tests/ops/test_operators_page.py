"""The table of operators in docs/api.md: layouts and types of arguments and results, and what is refused."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch

from tkgen import ops

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)\(([^|]*)\)` \| (`\w+` [^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE)
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "int32": torch.int32, "8-bit": torch.float8_e4m3fnuz}
SIZES = {"HEADS": 4, "KV_HEADS": 2, "GROUPS": 3, "GROUPS + 1": 4, "D": 64, "D / 2": 32}  # others have any


def size_of(dim: str) -> int:
    return SIZES.setdefault(dim, 8 + 4 * len(SIZES))


def listed(cell: str) -> list[tuple[str, torch.dtype, list[int]]]:
    """The tensors of a cell: name, type, shape."""
    found = []
    for name, kind, shape in re.findall(r"(?:`(\w+)` )?([\w-]+) \[([^\]]*)\]", cell):
        sizes = [s for d in shape.split(", ") for s in ([3, 5] if d == "..." else [size_of(d)])]
        found.append((name, TYPES[kind], sizes))
    return found


def test_the_page_has_every_operator() -> None:
    assert {name for name, *_ in ROWS} == set(ops.__all__) - {"emulated", "fp8", "through_hip"}


@pytest.mark.parametrize(("name", "parameters", "inputs", "outputs"), ROWS, ids=[row[0] for row in ROWS])
def test_layouts_and_types_are_those_of_the_page(name: str, parameters: str, inputs: str, outputs: str) -> None:
    """On tensors without memory: what is returned, and that another type or rank is refused in the operator's name."""
    operator, tensors = getattr(ops, name), listed(inputs)
    written = [word.partition("=") for word in parameters.split(", ")]
    signature = inspect.signature(operator).parameters.values()
    assert [(n, float(d) if "e" in d and d[0].isdigit() else d) for n, _, d in written] == [
        (p.name, "" if p.default is p.empty else p.default if isinstance(p.default, float) else str(p.default))
        for p in signature
    ]
    given = {each: torch.empty(shape, dtype=kind, device="meta") for each, kind, shape in tensors}
    made = operator(**given)
    found = [(t.dtype, [*t.shape]) for t in ((made,) if isinstance(made, torch.Tensor) else made)]
    assert found == [(kind, shape) for _, kind, shape in listed(outputs)]
    for each, tensor in given.items():
        ranks = [] if f"`{each}` bf16 [...," in inputs or f"`{each}` 8-bit [...," in inputs else [tensor[None]]
        for wrong in (tensor.to(torch.float16), *ranks):
            with pytest.raises(ValueError, match=f"^{name}: "):
                operator(**(given | {each: wrong}))
