"""Attention of inputs that hurt, on the emulator: its error against f64 is within twice that of torch's own in bf16."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from hurting import CASES, LENGTHS, as_torchs, assert_near, attended, hurting, laid
from sampling import sample

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.execute.launch import emulate
from tkgen.ir.rounding import TORCH

FOLDER = Path(__file__).parents[2] / "specs/attention"
ATTENTION = (FOLDER / "attention.tk").read_text(encoding="utf-8")
WINDOW = (FOLDER / "attention_window.tk").read_text(encoding="utf-8")
D = 64
SCALE = {"scale": math.log2(math.e) / math.sqrt(D)}
# The bundled forward kernels, and which keys (the second number) each query sees of a length and as many keys or more.
FORWARD: dict[str, Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor] | None] = {
    "attention": None, "attention_256": lambda q, j, _: q >= j, "attention_causal": lambda q, j, _: q >= j,
    "attention_direct": None, "attention_f16": None, "attention_interleaved": None, "attention_lazy": None,
    "attention_mqa": lambda q, j, more: q + more >= j, "attention_ping_pong": None, "attention_ping_pong_direct": None,
    "attention_written": None, "attention_window": lambda q, j, _: (q >= j) & (q - j < 40),
}  # fmt: skip
GUARDED = """    z = where(n > -inf, n, 0)
    p = exp2(s - z)
    r = exp2(m - z)
"""


def text_of(length: int, keys: int) -> str:
    sizes = "BATCH = 2, HEADS = 16, LENGTH = 2048, D = 128"
    text = ATTENTION.replace(sizes, f"BATCH = 1, HEADS = 2, LENGTH = {length}, KEYS = {keys}, D = {D}")
    text = text.replace("each j in LENGTH", "each j in KEYS").replace(
        "0.12751743", f"{math.log2(math.e) / math.sqrt(D)}"
    )
    for name in "KV":
        text = text.replace(f"{name} : bf16[BATCH, HEADS, LENGTH", f"{name} : bf16[BATCH, HEADS, KEYS")
    return text


@cache
def built(text: str, target: str) -> Build:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    return spec.build().check()


def computed(build: Build, **tensors: torch.Tensor) -> torch.Tensor:
    """The stores of the machine code; no findings."""
    program = build.spec.program
    scalars = {s.name: s.default or 0.0 for s in program.scalars}
    outputs, outcome = emulate(build, build.spec.launch(), tensors, scalars)
    assert not outcome.findings
    return outputs["O"].double()


def inputs(case: str, length: int, keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return hurting(case, (1, 2, length, D), (1, 2, keys, D))


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx950 direct"])
@pytest.mark.parametrize(("length", "keys"), sample([(128, 192), (1, 1), (63, 65), (127, 127)], 2, several=True))
def test_errors_are_within_twice_those_of_torch(length: int, keys: int, target: str) -> None:
    name, *direct = target.split()
    text = text_of(length, keys)
    build = built(text.replace("buffers 2", "buffers 2 via direct") if direct else text, name)
    for case in CASES:
        q, k, v = inputs(case, length, keys)
        assert_near(computed(build, Q=q, K=k, V=v), attended(q, k, v, exact=True), attended(q, k, v), case)


@pytest.mark.parametrize(
    ("name", "length"),
    sample(
        [
            pytest.param(name, length, marks=() if (i + place) % 4 == 0 else pytest.mark.slow)
            for place, name in enumerate(FORWARD)
            for i, length in enumerate(LENGTHS)
        ],
        2,
        several=True,
    ),
)
def test_errors_of_every_forward_kernel(name: str, length: int) -> None:
    """Each at one of the lengths by default; lengths on the two targets in turn."""
    text = (FOLDER / f"{name}.tk").read_text(encoding="utf-8").replace("WINDOW = 512", "WINDOW = 40")
    sizes = {"BATCH": 1, "HEADS": 2, "KV_HEADS": 1, "LENGTH": length, "KEYS": length + 20, "D": D}
    target = "gfx950" if "target gfx950" in text or length in (63, 127) else "gfx942"
    spec = tkgen.load(text, {n: size for n, size in sizes.items() if f"{n} =" in text}, target=target)
    assert isinstance(spec, Spec)
    build, launch = spec.build().check(), spec.launch()
    tensors = {t.name: t for t in spec.program.kernel.tensors}
    shapes = {n: as_torchs(tensors[n], torch.empty(launch.shape(tensors[n]))).shape for n in "QK"}
    (queries, keys), dtype = (shape[2] for shape in shapes.values()), TORCH[tensors["Q"].dtype]
    mask = FORWARD[name]
    seen = None if mask is None else mask(torch.arange(queries)[:, None], torch.arange(keys), keys - queries)
    for case in CASES:
        q, k, v = hurting(case, *shapes.values(), dtype)
        given = {n: laid(tensors[n], x) for n, x in zip("QKV", (q, k, v), strict=True)}
        outputs, outcome = emulate(build, launch, given, SCALE)
        assert not outcome.findings
        found = as_torchs(tensors["O"], outputs["O"])
        assert_near(found, attended(q, k, v, seen, exact=True), attended(q, k, v, seen), case)


def test_every_bundled_kernel_is_hurt() -> None:
    """Forward here; gradients, decode, pages and states in files of their own, by the same list."""
    others = {"linear_attention", "gated_delta_rule"}
    others |= {"attention_packed", "attention_chunks", "attention_decode", "attention_paged", "attention_fp8"}
    found = {path.stem for path in FOLDER.glob("*.tk") if not path.stem.startswith("attention_backward")}
    assert found == FORWARD.keys() | others


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_errors_of_packed_sequences(target: str) -> None:
    """A sequence of each length, one after the other: what hurts one must not reach the next."""
    first = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    sizes = {"SEQUENCES": len(LENGTHS), "TOTAL": int(first[-1]), "HEADS": 2, "KV_HEADS": 1, "D": D}
    spec = tkgen.load(FOLDER / "attention_packed.tk", sizes, target=target)
    assert isinstance(spec, Spec)
    build, launch = spec.build().check(), spec.launch()
    for case in CASES:
        parts = [hurting(case, (1, 2, length, D), (1, 1, length, D)) for length in LENGTHS]
        packed = {n: torch.cat([part[i][0] for part in parts], 1).transpose(0, 1) for i, n in enumerate("QKV")}
        given = {n: x.contiguous() for n, x in packed.items()} | {"FIRST": first}
        outputs, outcome = emulate(build, launch, given, SCALE)
        assert not outcome.findings
        for place, (length, (q, k, v)) in enumerate(zip(LENGTHS, parts, strict=True)):
            found = outputs["O"][first[place] : first[place + 1]].transpose(0, 1)
            seen = torch.ones(length, length).tril().bool()
            meant, theirs = (attended(q, k, v, seen, exact=exact) for exact in (True, False))
            assert_near(found, meant, theirs, (case, length))


@pytest.mark.parametrize("window", [1, 40])
def test_errors_in_a_window_are_within_twice_those_of_torch(window: int) -> None:
    """Rows whose first tile of keys is masked wholly, and first and last keys that few see."""
    text = WINDOW.replace(
        "BATCH = 2, HEADS = 16, LENGTH = 2000, D = 128", f"BATCH = 1, HEADS = 2, LENGTH = 130, D = {D}"
    )
    text = text.replace("WINDOW = 512", f"WINDOW = {window}").replace(
        "0.12751743", f"{math.log2(math.e) / math.sqrt(D)}"
    )
    build, place = built(text, "gfx942"), torch.arange(130)
    seen = (place[:, None] >= place) & (place[:, None] - place < window)
    for case in CASES:
        q, k, v = inputs(case, 130, 130)
        found = computed(build, Q=q, K=k, V=v)
        assert_near(found, attended(q, k, v, seen, exact=True), attended(q, k, v, seen), case)


def test_rows_that_are_masked_wholly_are_zero() -> None:
    """Queries before the first key: the guard of the spec keeps -inf - -inf and 0 / 0 away."""
    text = text_of(128, 128).replace("    n = max", "    s = where(q >= j + 40, s, -inf)\n    n = max")
    old = "    p = exp2(s - n)\n    r = exp2(m - n)\n"
    assert old in text
    text = text.replace(old, GUARDED).replace("= o / l", "= where(l > 0, o / l, 0)")
    q, k, v = inputs("std 4", 128, 128)
    found = computed(built(text, "gfx942"), Q=q, K=k, V=v)
    seen = torch.arange(128)[:, None] >= torch.arange(128) + 40
    assert not found[:, :, :40].any()
    assert_near(found, attended(q, k, v, seen, exact=True), attended(q, k, v, seen), "masked")


def test_nan_and_infinities_reach_the_rows_that_see_them_alone() -> None:
    q, k, v = inputs("std 1", 128, 192)
    q[0, 0, 7, 3] = torch.nan
    k[0, 1, 9] = torch.inf
    found = computed(built(text_of(128, 192), "gfx950"), Q=q, K=k, V=v)
    bad = found.isnan().any(-1)
    assert bad[0, 0].nonzero().flatten().tolist() == [7]
    assert torch.equal(bad[0, 1], attended(q, k, v, exact=True)[0, 1].isnan().any(-1))


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_nan_of_any_payload_stays_nan(target: str) -> None:
    """If bf16 is rounded in integers, the carry of a NaN of ones alone would run into the sign."""
    body = "    o = o + bf16(scale * Q[b, h, q] @ K[b, h, j].T) @ V[b, h, j]\n"
    lines = text_of(128, 64).replace("= o / l", "= o").replace("m : f32[q] = -3.4e38, l : f32[q] = 0, ", "").split("\n")
    text = "\n".join(line for line in lines if not line.startswith("    ")).replace("by 64\n", f"by 64\n{body}")
    build = built(text, target)
    q, k, v = inputs("std 1", 128, 64)
    q.view(torch.int16)[0, 0, 5, 1], q.view(torch.int16)[0, 1, 6, 2] = 0x7FFF, -1
    found = computed(build, Q=q, K=k, V=v)
    assert found.isnan().any(-1).nonzero().tolist() == [[0, 0, 5], [0, 1, 6]]
    launch, ones = build.spec.launch(), torch.ones_like(q)
    for bits in (0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
        scale = struct.unpack("d", struct.pack("Q", bits))[0]
        outputs, _ = emulate(build, launch, {"Q": ones, "K": k, "V": v}, {"scale": scale})
        assert outputs["O"].isnan().all()
