"""Loops of rows that are divided among blocks, `part p`: results beside torch, and what shows a wrong part."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna.lower.row_places import Places
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.execute.launch import computed
from tkgen.execute.modelled import in_order

SOFTMAX = """kernel softmax_parts
  dims PARTS = {parts}, ROWS = 3, D = {length}
  global X : f32[ROWS, D]
  global M : f32[PARTS, ROWS]
  global L : f32[PARTS, ROWS]
  over p in PARTS, r in ROWS by 1
  waves 4
  carry m : f32[r] = -3e38, l : f32[r] = 0
  each j in D by 256 part p
    n = max(m, rowmax(X[r, j]))
    l = l * exp(m - n) + rowsum(exp(X[r, j] - n))
    m = n
  each i in D by 256 part p
    t = t + rowsum(X[r, i] - m)
  M[p, r] = m + 0 * t
  L[p, r] = l
"""
COLUMNS = """kernel column_sums
  dims PARTS = {parts}, ROWS = {length}, D = 60
  global X : bf16[ROWS, D]
  global Y : f32[PARTS, D]
  over p in PARTS, d in D by 32
  waves 2
  each r in ROWS by 16 part p
    y = y + colsum(X[r, d])
  Y[p, d] = y
"""
SCALED = """kernel scaled_parts
  dims PARTS = {parts}, ROWS = 2, D = {length}
  global X : f32[ROWS, D]
  global S : f32[PARTS, ROWS]
  global Y : f32[PARTS, ROWS, D]
  over p in PARTS, r in ROWS by 1
  waves 4
  each j in D by 128 part p
    s = s + rowsum(X[r, j])
  S[p, r] = s
  each i in D by 128 part p
    Y[p, r, i] = X[r, i] - s
"""
TARGETS = "gfx942", "sm_90a"


def results(text: str, target: str, **sizes: int) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
    """Outputs of each executor, and the inputs."""
    spec = load(text, target=target).check()
    backend = backend_of(target)
    launch = spec.launch(sizes)
    inputs = random_inputs(launch, 1, Inputs.EXACT, backend.functions)
    if backend.interpreter is None:
        return [dict(computed(spec.build(), launch, inputs, {}))], inputs
    found = []
    for executor in backend.executors.values():
        (order,) = executor.orders(1)
        made = in_order(executor, spec, launch, inputs, {}, order)
        assert not made.findings
        found.append(dict(made.outputs))
    return found, inputs


def parts_of(size: int, tile: int, parts: int) -> list[slice]:
    """Equal runs of tiles, dealt out one tile after the other."""
    tiles = [(at, min(at + tile, size)) for at in range(0, size, tile)]
    run = next(n for n in itertools.count() if n * parts >= len(tiles))
    dealt = [tiles[p * run : (p + 1) * run] for p in range(parts)]
    return [slice(own[0][0], own[-1][1]) if own else slice(0, 0) for own in dealt]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("parts", "length", "sizes"),
    [(2, "512", {}), (3, "1000", {}), (5, "700", {}), (3, "dynamic", {"D": 1301}), (4, "dynamic", {"D": 5})],
)
def test_maxima_and_sums_of_each_part(target: str, parts: int, length: str, sizes: dict[str, int]) -> None:
    made, inputs = results(SOFTMAX.format(parts=parts, length=length), target, **sizes)
    x = inputs["X"].double()
    for found, (p, own) in itertools.product(made, enumerate(parts_of(x.shape[1], 256, parts))):
        if own.start == own.stop:
            assert (found["M"][p] <= -2.9e38).all() and not found["L"][p].any()
            continue
        most = x[:, own].amax(1)
        assert torch.equal(found["M"][p].double(), most)
        torch.testing.assert_close(found["L"][p].double(), (x[:, own] - most[:, None]).exp().sum(1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("parts", "length", "sizes"), [(3, "100", {}), (7, "40", {}), (2, "dynamic", {"ROWS": 71})]
)  # fmt: skip
def test_columns_of_each_part(target: str, parts: int, length: str, sizes: dict[str, int]) -> None:
    made, inputs = results(COLUMNS.format(parts=parts, length=length), target, **sizes)
    x = inputs["X"].double()
    wanted = torch.stack([x[own].sum(0) for own in parts_of(len(x), 16, parts)])
    for found in made:
        assert torch.equal(found["Y"].double(), wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_a_part_stores_what_its_loop_visits(target: str) -> None:
    made, inputs = results(SCALED.format(parts=3, length=500), target)
    x = inputs["X"].double()
    for found, (p, own) in itertools.product(made, enumerate(parts_of(500, 128, 3))):
        total = x[:, own].sum(1)
        assert torch.equal(found["S"][p].double(), total)
        assert torch.equal(found["Y"][p][:, own].double(), (x[:, own] - total[:, None]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("old", "new"),
    [("p_0 * 48", "p_0 * 32"), ("(p_0 + 1) * 48", "(p_0 + 2) * 48"), ("(p_0 + 1) * 48", "p_0 * 48 + 32")],
)  # fmt: skip
def test_code_with_other_ends_gives_other_sums(
    target: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = Places.passes

    def wrong(self: Places, axis: object) -> str:
        made = head(self, axis)  # type: ignore[arg-type]
        assert old in made
        return made.replace(old, new, 1)

    monkeypatch.setattr(Places, "passes", wrong)
    made, inputs = results(COLUMNS.format(parts=3, length=100), target)
    x = inputs["X"].double()
    wanted = torch.stack([x[own].sum(0) for own in parts_of(100, 16, 3)])
    assert not torch.equal(made[0]["Y"].double(), wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COLUMNS.format(parts="dynamic", length=100), "known only at run time"),
        (COLUMNS.format(parts=80_000_000, length=100), "beyond the range of 32 bits"),
        (COLUMNS.format(parts=2, length=100).replace("Y[p, d]", "Y[0, d]"), "every block along `p` writes"),
        (SOFTMAX.format(parts=2, length=512).replace("each i in D by 256 part p", "each i in D by 256"),
         "`i` is over other tiles than `j`"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_refused(target: str, text: str, message: str) -> None:
    with pytest.raises(SpecError) as found:
        load(text, target=target).check()
    assert any(message in d.message for d in found.value.diagnostics), [d.message for d in found.value.diagnostics]
