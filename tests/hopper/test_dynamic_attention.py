"""Fused matmuls on Hopper whose sizes only the launch knows: the C++ on the CPU beside torch, at many lengths."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from sampling import sample
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.loop_schedule import shapes
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError
from tkgen.execute.arguments import SizeError
from tkgen.execute.modelled import in_order
from tkgen.proof.execution import Order

SPEC = """kernel attention
  target sm_90a
  dims PARTS = {count}, HEADS = dynamic, LENGTH = dynamic, KEYS = dynamic, D = 64
  global Q : bf16[LENGTH, HEADS, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global B : f32[HEADS, LENGTH, KEYS]
  global O : bf16[PARTS, HEADS, LENGTH, D]
  global M : f32[PARTS, HEADS, LENGTH]
  over {parts}h in HEADS, q in LENGTH by 128
  {clauses}
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 64{bounds}
    x = 0.125 * Q[q, h] @ K[h, j].T + B[h, q, j]{mask}
    n = max(m, rowmax(x))
    p = exp(x - n)
    r = exp(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[{at}, h, q] = o / l
  M[{at}, h, q] = m + log(l)
"""

CAUSAL = {"bounds": " to q + length(j) - length(q)",
          "mask": "\n    x = where(q + length(j) - length(q) >= j, x, -inf)"}  # fmt: skip
WINDOW = {"bounds": " from q + length(j) - length(q) - 99 to q + length(j) - length(q)",
          "mask": CAUSAL["mask"] + "\n    x = where(q + length(j) - length(q) < j + 100, x, -inf)"}  # fmt: skip
PARTED = {"parts": "s in PARTS, ", "bounds": " part s", "at": "s"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "all keys": {},
    "causal": CAUSAL,
    "window": WINDOW,
    "three parts": PARTED | {"count": "3"},
    "parts": PARTED | {"count": "dynamic"},
    "persistent": {"clauses": "grid persistent(3)\n  remap column_major"},
    "causal, persistent": CAUSAL | {"clauses": "grid persistent(2)"},
    "window, persistent": WINDOW | {"clauses": "grid persistent(2)"},
    "parts, persistent": PARTED | {"count": "dynamic", "clauses": "grid persistent(3)"},
}
ONE, FEW, MANY = (1, 1, 1), (3, 200, 250), (2, 129, 321)
SIZES = [ONE, (1, 1, 200), (2, 64, 64), (1, 128, 128), (1, 127, 129), FEW, (2, 65, 321), MANY]
EARLY, LAST = Order(), Order("last", frozenset())


def text(kind: str) -> str:
    return SPEC.format_map(
        {"count": "1", "parts": "", "clauses": "", "bounds": "", "mask": "", "at": "0"} | dict(KINDS[kind])
    )


def loaded(kind: str) -> HopperSpec:
    spec = load(text(kind)).check()
    assert isinstance(spec, HopperSpec)
    return spec


def sizes(kind: str, size: tuple[int, int, int]) -> dict[str, int]:
    parts = {"PARTS": min(2, -(-size[2] // 64))} if kind.startswith("parts") else {}
    return dict(zip(("HEADS", "LENGTH", "KEYS"), size, strict=True)) | parts


def given(heads: int, queries: int, keys: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"Q": (queries, heads, 64), "K": (heads, keys, 64), "V": (heads, keys, 64), "B": (heads, queries, keys)}
    made = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {name: x if name == "B" else x.bfloat16() for name, x in made.items()}


def wanted(kind: str, inputs: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """The outputs in f64."""
    kind = kind.split(",")[0]
    t = {name: x.double() for name, x in inputs.items()}
    queries, keys = t["B"].shape[1:]
    row, column = torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if kind in ("causal", "window"):
        seen = column <= row
    if kind == "window":
        seen &= row < column + 100
    scores = torch.einsum("qhd,hjd->hqj", t["Q"], t["K"]) * 0.125 + t["B"]
    scores = scores.masked_fill(~seen, -torch.inf)
    tiles = -(-keys // 64)
    run_length = -(-tiles // count) * 64
    outputs, logarithms = [], []
    for own in column.split(run_length):
        outputs.append(scores[..., own].softmax(-1) @ t["V"][:, own])
        logarithms.append(scores[..., own].logsumexp(-1))
    return {"O": torch.stack(outputs), "M": torch.stack(logarithms)}


def fits(kind: str, size: tuple[int, int, int]) -> bool:
    """Every part of the keys has some."""
    tiles = -(-size[2] // 64)
    return kind != "three parts" or 2 * -(-tiles // 3) < tiles


CASES = [(kind, size) for kind in KINDS for size in SIZES if fits(kind, size)]


@pytest.mark.parametrize(("kind", "size"), sample(CASES, 4, several=True))
def test_any_lengths_compute_what_torch_does(kind: str, size: tuple[int, int, int]) -> None:
    spec, inputs = loaded(kind), given(*size)
    launch = spec.launch(sizes(kind, size))
    values = wanted(kind, inputs, launch.extents["PARTS"])
    for order in (EARLY, LAST):
        made = run(spec, launch, inputs, {}, order, limit=60)
        assert not made.findings
        for name, value in values.items():
            assert torch.allclose(made.outputs[name].double(), value, rtol=0.02, atol=0.05), name


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_of_the_schedule_has_the_launch_s_lengths(kind: str) -> None:
    spec, inputs = loaded(kind), given(*MANY)
    launch = spec.launch(sizes(kind, MANY))
    values = wanted(kind, inputs, launch.extents["PARTS"])
    executor = next(e for name, e in HopperBackend().executors.items() if name == "model")
    (order,) = executor.orders(1)
    made = in_order(executor, spec, launch, inputs, {}, order)
    for name, value in values.items():
        assert not made.findings and torch.allclose(made.outputs[name].double(), value, rtol=0.02, atol=0.05), name


GUARDS = {
    "iterations of whole tiles alone": ("all keys", "(g.K.rows() + KEYS - 1) / KEYS", "g.K.rows() / KEYS"),
    "tiles of keys beyond the end": ("all keys", "if (iteration * KEYS + KEYS - 1 < g.K.rows()", "if (true"),
    "keys beyond the end": ("all keys", "% 4) + e) < g.K.rows())", "% 4) + e) < g.K.rows() + 64)"),
    "rows beyond the end": ("all keys", " && first_row + laneid() / 4 + 8 * r < g.Q.depth()", ""),
    "tiles of the output that are whole": ("all keys", "(g.Q.depth() + 127) / 128", "g.Q.depth() / 128"),
    "heads": ("all keys", "const int h_tiles = g.Q.rows()", "const int h_tiles = g.Q.rows() - 1"),
    "the place of the last query": ("causal", "(g.K.rows() - g.Q.depth())", "(0)"),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_a_size_that_the_code_gets_wrong_is_found(guard: str) -> None:
    kind, old, new = GUARDS[guard]
    size = ONE if "keys beyond" in guard else FEW  # of many keys a few more change little
    spec, inputs = loaded(kind), given(*size)
    launch = spec.launch(sizes(kind, size))
    assert old in spec.text, spec.text
    made = run(spec, launch, inputs, {}, EARLY, text=spec.text.replace(old, new), limit=60)
    values = wanted(kind, inputs, 1)
    same = (torch.allclose(made.outputs[n].double(), v, rtol=0.02, atol=0.05) for n, v in values.items())
    assert made.findings or not all(same)


def test_every_number_of_iterations_is_proven() -> None:
    """With two buffers of each factor, those up to three stand for any number."""
    for kind in ("all keys", "causal", "parts"):
        layout = loaded(kind).layout
        assert layout.pass_counts is None
        assert {(s.consumers, s.passes) for s in shapes(layout)} == {(c, n) for c in (1, 2) for n in (1, 2, 3, 4)}
    known = load(text("all keys").replace("KEYS = dynamic", "KEYS = 200"))
    assert known.layout.pass_counts == (4,)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "size", "said"),
    [
        ("causal", (1, 300, 100), "at this KEYS and LENGTH a tile of q has no `j` to loop over"),
        ("three parts", (1, 10, 128), "at this KEYS a tile of q has no `j` to loop over"),
        ("all keys", (1, 0, 128), "LENGTH must be from 1"),
        ("all keys", (0, 10, 128), "HEADS must be from 1"),
    ],
)
def test_sizes_at_which_a_tile_has_nothing_to_do_are_refused(kind: str, size: tuple[int, int, int], said: str) -> None:
    with pytest.raises(SizeError, match=said):
        loaded(kind).launch(sizes(kind, size))


def test_what_no_size_could_launch_is_refused_before() -> None:
    spec = text("causal").replace(CAUSAL["bounds"], " to q - 200")
    with pytest.raises(SpecError) as caught:
        load(spec).check()
    assert "has no iteration" in str([d.message for d in caught.value.diagnostics])
