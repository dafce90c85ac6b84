"""Gradients of attention: the bundled sequences, their machine code, and their numbers against f64 and torch's own."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from changed_waves import is_right, left_out
from hurting import CASES, LENGTHS, assert_near, attended, cancelled, gradients, hurting
from sampling import sample

import tkgen
from tkgen.backends.cdna.fused import FUSED
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.execute.cases import unmet
from tkgen.execute.launch import emulate as once
from tkgen.execute.launch import emulate_all, run, trials
from tkgen.ops.kernels import SPECS as SPECS_OF_OPERATORS
from tkgen.predict.iterations import Iterations
from tkgen.schedule.loop_steps import unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.sequence import SequenceBuild, SequenceSpec
from tkgen.tile.ops import Barrier, Equations, Share
from tkgen.tile.program import Part

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs/attention").glob("attention_backward*.tk"))
TARGETS = ("gfx942", "gfx950")
ATOMIC = ROOT / "specs/attention/attention_backward_atomic.tk"
BUILDS = [(path, target) for path in SPECS for target in TARGETS if target == "gfx950" or "direct" not in path.stem]


def spec_of(source: Path | str, target: str, **sizes: int) -> SequenceSpec:
    spec = tkgen.load(source, sizes, target=target)
    assert isinstance(spec, SequenceSpec)
    return spec


def built(spec: SequenceSpec) -> SequenceBuild:
    """Compiled, watched, without spills."""
    build = spec.build().check()
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels)
    return build


@pytest.mark.parametrize(("path", "target"), sample(BUILDS, 4, several=True), ids=lambda p: getattr(p, "stem", p))
def test_source_figures_and_machine_code(path: Path, target: str) -> None:
    spec = spec_of(path, target)
    assert not spec.diagnostics
    build = built(spec)
    assert "# expect " in path.read_text(encoding="utf-8") and not unmet(build)
    if target != tkgen.load(path).target.name:
        return
    golden = ROOT / "generated" / target / f"{path.stem}.cpp"
    assert golden.read_text(encoding="utf-8") == spec.source.text
    for kernel in build.kernels:
        assert isinstance(kernel, Build)
        blocks = kernel.spec.launch().sample()
        few = blocks[-1:] if path == ATOMIC else blocks[:1]  # the last block of causal keys makes the fewest passes
        assert not run(kernel, blocks=few if kernel.spec.form is FUSED else blocks).failure


@pytest.mark.parametrize(
    ("path", "target", "count"),
    sample(
        [(path, target, 4) for path, target in BUILDS if path != ATOMIC]
        + [(ATOMIC, "gfx942", 3)]
        + [pytest.param(path, target, 20, marks=pytest.mark.slow) for path, target in BUILDS if path != ATOMIC]
        + [pytest.param(ATOMIC, target, 20, marks=pytest.mark.slow) for target in TARGETS],
        2,
        several=True,
    ),
    ids=lambda p: getattr(p, "stem", p),
)
def test_numbers_are_right_in_many_interleavings(path: Path, target: str, count: int) -> None:
    build = built(
        spec_of(path, target, **small(path, 128, 64 if "direct" in path.stem or "atomic" in path.stem else 32))
    )
    for order, kind in trials(count):
        assert not run(build, kind=kind, order=order).failure


def is_causal(path: Path) -> bool:
    return "SETS" in path.read_text(encoding="utf-8")


def small(path: Path, length: int, width: int) -> dict[str, int]:
    """Sizes that run soon."""
    heads = {"SETS": 1, "GROUP": 2} if is_causal(path) else {"BATCH": 1, "HEADS": 1}
    return heads | {"LENGTH": length, "D": width}


# ---------------------------------------------------------------- against torch

D = 64
SCALE = {"scale": math.log2(math.e) / math.sqrt(D)}


@cache
def forward(length: int, causal: bool, target: str, direct: bool) -> Build:
    """The kernel whose sums and logarithms a backward pass takes, which computes the same scores, bit by bit."""
    text = (SPECS_OF_OPERATORS / f"attention{'_causal' * causal}.tk").read_text(encoding="utf-8")
    text = text.replace("buffers 2", "buffers 2 via direct") if direct else text
    sizes = {"SETS": 1, "GROUP": 1 + causal, "LENGTH": length, "KEYS": length, "D": D}
    build = tkgen.load(text, sizes, target=target).check().build()
    assert isinstance(build, Build)
    return build


def backward(
    build: SequenceBuild, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **others: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The gradients that the machine code finds, as torch has them; nothing was found of it."""
    launch, given = build.spec.launch(), {"Q": q, "K": k, "V": v} | others
    tensors = {of.name: given[of.name].reshape(launch.shape(of)) for of in build.spec.program.reads}
    found, outcomes = emulate_all(build, launch, tensors, SCALE)
    assert not any(outcome.findings for outcome in outcomes)
    return {f"G{name}": found[f"G{name}"].reshape(x.shape) for name, x in zip("QKV", (q, k, v), strict=True)}


@pytest.mark.parametrize(
    ("path", "length"),
    [
        pytest.param(
            path, length, marks=pytest.mark.slow if (length != 1 if path == ATOMIC else (i + n + n // 2) % 4) else ()
        )
        for i, path in enumerate(SPECS)
        for n, length in enumerate(LENGTHS)
    ],
    ids=lambda p: getattr(p, "stem", p),
)
def test_errors_are_within_twice_those_of_torch(path: Path, length: int) -> None:
    """One and two passes of 64 keys, two and four of 32 queries; each length on one of the targets."""
    target = "gfx950" if "direct" in path.stem or length in (63, 127) else "gfx942"
    causal = is_causal(path)
    build = built(spec_of(path, target, **small(path, length, D)))
    before = forward(length, causal, target, "direct" in path.stem)
    seen = torch.ones(length, length).tril().bool() if causal else None
    for case in CASES:
        q, k, v = hurting(case, (1, 1 + causal, length, D), (1, 1, length, D))
        g = torch.randn(q.shape, generator=torch.Generator().manual_seed(length)).mul(0.01).bfloat16()
        launch = before.spec.launch()
        reads = zip(before.spec.program.reads, (q, k, v), strict=True)
        given = {of.name: x.reshape(launch.shape(of)) for of, x in reads}
        left, _ = once(before, launch, given, SCALE)
        found = backward(build, q, k, v, GO=g, O=left["O"], LSE2=left["LSE2"])
        exact, theirs = gradients(q, k, v, g, seen, exact=True), gradients(q, k, v, g, seen)
        rounding = cancelled(q, k, v, g) if length == 1 else 0.0
        for name, meant in exact.items():
            assert_near(found[name], meant, theirs[name], (case, name), rounding)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if p == ATOMIC else ()) for p in SPECS if "SETS" in p.read_text("utf-8")],
    ids=lambda p: p.stem,
)
def test_rows_that_see_no_key_have_no_gradient(path: Path, target: str) -> None:
    """Their logarithm is -inf, and what is subtracted of their scores is not that."""
    text = path.read_text(encoding="utf-8").replace("q >= j", "q >= j + 40")
    build = built(spec_of(text, target, **small(path, 100, D)))
    seen = torch.arange(100)[:, None] >= torch.arange(100) + 40
    q, k, v = hurting("std 4", (1, 2, 100, D), (1, 1, 100, D))
    g = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    scores = (q.double() @ k.double().transpose(-1, -2) / math.sqrt(D)).where(seen, -torch.inf)
    logarithms = (scores.logsumexp(-1) * math.log2(math.e)).float()
    found = backward(build, q, k, v, GO=g, O=attended(q, k, v, seen, exact=True).bfloat16(), LSE2=logarithms)
    assert not found["GQ"][:, :, :40].any() and not found["GK"][:, :, 60:].any() and not found["GV"][:, :, 60:].any()
    exact, theirs = gradients(q, k, v, g, seen, exact=True), gradients(q, k, v, g, seen)
    for name, meant in exact.items():
        assert_near(found[name], meant, theirs[name], name)


# ---------------------------------------------------------------- what blocks add


def keys_of(text: str, **sizes: int) -> Spec:
    """The kernel of keys of the sequence whose dQ is added atomically."""
    spec = spec_of(text, "gfx942", **small(ATOMIC, 300, D) | sizes)
    (keys,) = (kernel for kernel in spec.kernels if kernel.name == "keys")
    assert isinstance(keys, Spec)
    return keys


def test_what_blocks_add_is_summed_over_all_of_them() -> None:
    """Three blocks of keys, the last one part of a tile, in two orders; an output that is added to begins at zero."""
    build = built(spec_of(ATOMIC, "gfx942", SETS=1, GROUP=1, LENGTH=150, D=D))
    for order, kind in trials(2):
        assert not run(build, kind=kind, order=order).failure
    assert build.kernels[1].spec.program.added == {"PQ"}
    keys, text = build.kernels[1], build.spec.source.text
    assert isinstance(keys, Build)
    assert Iterations.of(keys).written_bytes == 4 * 150 * D * (2 + 2)  # zeros and sums of PQ; PK, PV
    assert text.count("hipMemsetAsync(g.PQ.raw_ptr, 0") == 1 and text.count("hipMemsetAsync") == 1


def test_a_meeting_left_out_before_what_waves_exchange_is_found() -> None:
    keys = keys_of(ATOMIC.read_text(encoding="utf-8"))
    made, machine = keys.schedule, keys.target.synchronisation
    assert is_right(keys, made)
    meetings = [without for part, step, without in left_out(made) if part is Part.BODY and isinstance(step, Barrier)]
    assert meetings and all(unproven(keys.layout, without, machine) is not None for without in meetings)


def test_what_is_added_twice_or_before_it_is_given_is_found() -> None:
    keys = keys_of(ATOMIC.read_text(encoding="utf-8"))
    body = keys.schedule.ops(Part.BODY)
    give = next(n for n, step in enumerate(body) if isinstance(step, Share))
    added = next(n for n, step in enumerate(body) if n > give and isinstance(step, Equations))
    bodies = (body[: added + 1] + body[added:], body[:give] + body[give + 1 :], body[:added] + body[added + 1 :])
    twice, *fewer = (unlike(keys.layout, keys.schedule.with_ops(Part.BODY, changed)) or "" for changed in bodies)
    assert "2 times in an iteration" in twice and all("PQ" in wrong for wrong in fewer)


MADE = "the right operand of the added product is not a tile of a tensor along `j`"
NO_SUM = "`+=` adds a sum of each block over its own tile, but this is not such a sum"
ADDS = "PQ[s, h, q] += gx @ K[s, j]"


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("PQ : f32", "PQ : bf16", "E204", "blocks add to `PQ`, which is bf16"),
        (ADDS, f"{ADDS}\n    {ADDS}", "E602", "`PQ` is stored twice"),
        ("  PV[s, h, j] = gv", "  PQ[s, h, j] = gv", "E602", "`PQ` is stored twice"),
        ("gk = gk", "z = PQ[s, h, q] * 2\n    gk = gk", "E228", "blocks add to `PQ`, which the kernel reads"),
        ("PV[s, h, j] = gv", "PV[s, h, j] = gv + PQ[s, h, j]", "E228", "`PQ` is read after a store to it"),
        (" += gx", " = gx", "E226", "the sum over `j` would be over only the block's tile of 128"),
        ("+= gx @ K[s, j]", "+= GO[s, h, q]", "E226", NO_SUM),
        ("+= gx", "+= scale * gx", "E226", NO_SUM),
        ("PQ[s, h, q] +=", "PQ[s, 0, q] +=", "E602", "every block along `h` writes `PQ[s, 0, q]`, each with a "
                                                     "different value"),
        ("gx @ K[s, j]", "gx @ bf16(2 * K[s, j])", "E230", MADE),
        ("D = 128", "D = 32", "E230", "4 waves cannot divide 32 along `D` in parts of 16"),
        ("registers K, V", "registers K, V\n  schedule interleave", "E230",
         "this schedule has no step for values that waves exchange"),
    ],
)  # fmt: skip
def test_mistakes_in_what_is_added(old: str, new: str, code: str, message: str) -> None:
    text = ATOMIC.read_text(encoding="utf-8")
    assert old in text
    assert first_of(text.replace(old, new, 1)) == (code, message)


def first_of(text: str) -> tuple[str, str]:
    """Code and message of what is said first of a wrong spec."""
    try:
        found = tkgen.load(text, target="gfx942").diagnostics
    except tkgen.SpecError as error:
        found = error.diagnostics
    return found[0].code, found[0].message


@pytest.mark.parametrize(("kernel", "tile"), [("keys", "Q"), ("queries", "K")])
def test_ping_pong_of_gradients_is_refused_with_its_reason(kernel: str, tile: str) -> None:
    before, behind = SPECS[0].read_text(encoding="utf-8").split(f"kernel {kernel}\n")
    text = f"{before}kernel {kernel}\n{behind.replace('LENGTH by 128', 'LENGTH by 256').replace('waves 4', 'waves 8')}"
    place = text.index("  registers", text.index(f"kernel {kernel}\n"))
    said = f"`{tile}` is read an iteration ahead: it needs 2 buffers and no other use"
    assert first_of(f"{text[:place]}  schedule ping_pong\n{text[place:]}") == ("E230", said)


def test_what_is_added_has_no_factor_of_before_the_loop() -> None:
    before, behind = ATOMIC.read_text(encoding="utf-8").split("  each q in LENGTH by 32 from j\n")
    text = f"{before}  t = bf16(2 * K[s, j])\n  each q in LENGTH by 32 from j\n{behind}"
    assert first_of(text.replace("gx @ K[s, j]", "gx @ t")) == ("E230", MADE)


def test_rows_add_to_nothing() -> None:
    text = """kernel sums
  dims M = 64, N = 64
  global X : f32[M, N]
  global Y : f32[N]
  over m in M by 16
  waves 4 along m
  Y[N] += colsum(X[m])
"""
    with pytest.raises(tkgen.SpecError, match="adds a sum of each block over its own tile") as error:
        tkgen.load(text)
    assert error.value.diagnostics[0].code == "E226"
