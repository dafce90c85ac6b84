"""Direct loads leave out what lies past the end of a tensor or a group: LDS holds zeros there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tkgen import api
from tkgen.backends.cdna.kittens import include_dir
from tkgen.emulate import interleavings
from tkgen.execute.launch import computed, run
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler

LAYOUTS = {"ABt": ("M, K", "N, K"), "AB": ("M, K", "K, N"), "AtB": ("K, M", "K, N"), "AtBt": ("K, M", "N, K")}
TAIL = "  tail masked\n"
NAN = float("nan")
Small = Callable[..., api.Spec]

RAGGED = """\
kernel ragged
  dims TOKENS = 96, EXPERTS = 4, OFFSETS = EXPERTS + 1, OUT = 56, IN = 40
  global FIRST : i32[OFFSETS]
  global X : bf16[TOKENS, IN]
  global W : bf16[TOKENS, OUT]
  global Y : f32[EXPERTS, OUT, IN]
  over e in EXPERTS, k in IN by 64, n in OUT by 64
  tail masked
  shared X, W buffers 2 via direct
  each m in TOKENS within FIRST[e] by 32
    y = y + W[m, n].T @ X[m, k]
  Y[e, n, k] = y
"""


def right(spec: api.Spec, orders: int = 2) -> bool:
    build = spec.check().build().check()
    return all(run(build, order=order).ok for order in interleavings(orders))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tail", ["masked", "clamped"])
def test_layouts(small: Small, layout: str, tail: str) -> None:
    a, b = LAYOUTS[layout]
    k = 152 if tail == "masked" else 192
    assert right(small(a=a, b=b, m=72, n=88, k=k, rest=f"  tail {tail}\n"))


@pytest.mark.parametrize(("m", "n", "k"), [(8, 8, 8), (1, 130, 200), (65, 3, 64)])
def test_few_rows_and_columns(small: Small, m: int, n: int, k: int) -> None:
    assert right(small(m=m, n=n, k=k, rest=TAIL))


@pytest.mark.parametrize(
    "changes",
    [
        {"buffers": 3, "k": 328},
        {"rest": TAIL + "  grid persistent(2)\n"},
        {"rest": TAIL + "  stream A, B\n"},
        {"dtype": "e4m3fn", "slice": 128, "block": "64 x 64 step 128", "k": 208},
    ],
    ids=["three buffers", "persistent", "streamed", "bytes"],
)
def test_combinations(small: Small, changes: dict[str, object]) -> None:
    assert right(small(**({"m": 100, "n": 72, "k": 136, "rest": TAIL} | changes)))


def test_sizes_of_rows_known_at_run_time(small: Small) -> None:
    build = api.load(small(k=152, rest=TAIL).path, {"M": None, "N": None}).check().build().check()
    for m, n in ((1, 200), (130, 64)):
        assert run(build, extents={"M": m, "N": n}).ok


PARTS = """\
kernel parts
  dims PARTS = 2, M = 56, N = 72, K = 192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[PARTS, M, N]
  over p in PARTS, m in M by 64, n in N by 64
  tail masked
  shared A, B buffers 2 via direct
  each k in K by 32 part p
    c = c + A[m, k] @ B[n, k].T
  C[p, m, n] = c
"""


@pytest.mark.parametrize("k", [96, 160, 192])
def test_steps_past_the_end(tmp_path: Path, k: int) -> None:
    """The last part has a step that no row reaches, though rows are whole tiles: it adds nothing."""
    (path := tmp_path / "parts.tk").write_text(PARTS.replace("K = 192", f"K = {k}"))
    assert right(api.load(path, target="gfx950"))


def ragged(build: api.Build) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums over the rows of each group, one of which is empty, and what they are; rows of no group are NaN."""
    generator = torch.Generator().manual_seed(1)
    first = [0, 37, 37, 70, 81]
    x = torch.randint(-4, 5, (96, 40), generator=generator).bfloat16()
    w = torch.randint(-4, 5, (96, 56), generator=generator).bfloat16()
    x[81:], w[81:] = NAN, NAN
    inputs = {"FIRST": torch.tensor(first, dtype=torch.int32), "X": x, "W": w}
    wanted = torch.stack([w[a:b].float().T @ x[a:b].float() for a, b in pairwise(first)])
    return computed(build, build.spec.launch({}), inputs, {})["Y"], wanted


def test_groups_end_within_a_step(tmp_path: Path) -> None:
    (path := tmp_path / "ragged.tk").write_text(RAGGED)
    assert torch.equal(*ragged(api.load(path, target="gfx950").check().build()))


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("scalar(rows * pitch * size)", "scalar(ST::rows * pitch * size)"),
        ("? OUTSIDE : offsets[p + i]", "? offsets[p + i] : offsets[p + i]"),
    ],
    ids=["rows", "columns"],
)
def test_a_load_that_leaves_out_less_is_noticed(small: Small, tmp_path: Path, text: str, instead: str) -> None:
    """Without the end of the rows, or that of each row, products of what lies there are added."""
    headers = tmp_path / "include"
    shutil.copytree(include_dir(), headers)
    copies = headers / "tkgen" / "rings.cuh"
    assert copies.read_text().count(text) == 1
    copies.write_text(copies.read_text().replace(text, instead))
    (path := tmp_path / "ragged.tk").write_text(RAGGED)
    specs = {"rows": api.load(path, target="gfx950"), "columns": small(k=152, rest=TAIL)}
    spec = specs["rows" if "ST::rows" in instead else "columns"].check()
    made = compile_device(
        spec.source.text, spec.target, find_compiler(spec.target), include_dirs=[headers], source_name="mutant.cpp"
    )
    build = replace(spec.build(), asm=made.asm, hsaco=made.hsaco)
    if spec is specs["rows"]:
        assert not torch.equal(*ragged(build))
    else:
        assert not run(build).ok
