"""Hints of a spec to the compiler and to the caches: no proof relies on them, no value depends on them."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tkgen import api
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run
from tkgen.schedule.plan import Plan
from tkgen.tile.ops import Mix
from tkgen.tile.program import Part
from tkgen.toolchain.isa import main_loop

MIXED = """\
kernel mixed
  dims M = 128, N = 128, K = 192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 64
  waves 2 x 2
  shared A, B buffers 1 via registers
  registers A, B slice 16 buffers 2
  accumulate C : f32 tile 32 x 32
  store C
  schedule
    group fetch A[k+1] B[k+1]  read A(*; 0) B(*; 0)
    group read A(*; 1) B(*; 1)  multiply slice 0  mix (multiply 2, read 1) x 4
    group read A(*; 2) B(*; 2)  multiply slice 1
    cluster read A(*; 3) B(*; 3)  multiply slice 2  wait lds 0
    cluster multiply slice 3  write A[k+1] B[k+1]  wait lds 0  mix (fetch 1, multiply 2, write 1) x 8
"""
WISH = re.compile(r"  mix \(.*\) x \d")


def spec(folder: Path, text: str) -> api.Spec:
    path = folder / "mixed.tk"
    path.write_text(text)
    return api.load(path)


def without_wishes(plan: Plan) -> tuple[object, ...]:
    for role, part in product(plan.role_names, Part):
        ops = plan.waves_of(role)[0].ops(part)
        plan = plan.with_ops(role, part, tuple(op for op in ops if not isinstance(op, Mix)))
    return plan.waves


def conflicting(plan: Plan) -> list[tuple[object, ...]]:
    return [(c.kind, c.operand, c.first and c.first.op, c.second and c.second.op, c.waves) for c in plan.conflicts()]


def test_a_mix_changes_no_plan_and_no_proof(tmp_path: Path) -> None:
    bare = WISH.sub("", MIXED)
    assert bare != MIXED
    # As it stands, with a wait that is missing, and with a barrier that is.
    for old, new in (("", ""), ("  wait lds 0\n    cluster", "\n    cluster"), ("cluster read", "group read")):
        with_mix, without = (spec(tmp_path, text.replace(old, new)) for text in (MIXED, bare))
        assert any(isinstance(p, Mix) for p in with_mix.plan.waves[0].tiles.body)
        assert without_wishes(with_mix.plan) == without.plan.waves
        assert conflicting(with_mix.plan) == conflicting(without.plan)
        assert [d.code for d in with_mix.diagnostics] == [d.code for d in without.diagnostics]


def test_a_mix_orders_instructions_and_leaves_the_numbers(tmp_path: Path) -> None:
    build = spec(tmp_path, MIXED).check().build().check()
    loop = main_loop(build.function)
    assert loop is not None
    kinds = {"v_mfma": "M", "ds_read": "R", "ds_write": "W"}
    shape = "".join(k for i in loop.instructions for name, k in kinds.items() if i.mnemonic.startswith(name))
    assert "MMRMMR" in shape and "MMWMMWMMW" in shape
    bare = spec(tmp_path, WISH.sub("", MIXED)).check().build().check()
    for order in interleavings(5):
        one, other = run(build, order=order), run(bare, order=order)
        assert one.ok and other.ok
        assert one.comparison.max_error == other.comparison.max_error


@pytest.mark.parametrize("wish", ["mix (multiply 0, read 1) x 8", "mix (multiply 2, read 1) x 1000"])
def test_a_mix_of_too_few_or_too_many(tmp_path: Path, wish: str) -> None:
    with pytest.raises(SpecError, match="is not a valid number of instructions to mix"):
        spec(tmp_path, MIXED.replace("mix (multiply 2, read 1) x 4", wish))


# ---------------------------------------------------------------- caches

STREAMED = """\
kernel streamed
  dims M = {size}, N = 128, K = 192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
{stream}  block 64 x 64 step 64
  waves 2 x 2
  shared A, B buffers 2 via {via}
  registers A, B slice 32
  accumulate C : f32 tile 32 x 32
{rest}  store C
"""


def streamed(folder: Path, names: str, via: str = "collective", rest: str = "", size: str = "128") -> api.Spec:
    stream = f"  stream {names}\n" if names else ""
    return spec(folder, STREAMED.format(stream=stream, via=via, rest=rest, size=size))


def accesses(assembly: str, kind: str) -> list[bool]:
    """Flags of the accesses to global memory of a kind: True if marked as used once."""
    lines = [line.split() for line in assembly.splitlines() if line.strip().startswith(f"buffer_{kind}")]
    return ["nt" in words for words in lines]


@pytest.mark.parametrize("via", ["collective", "registers", "direct"])
def test_streamed_tensors_are_marked_and_no_others(tmp_path: Path, via: str) -> None:
    rest = "  target gfx950\n" if via == "direct" else ""
    build = streamed(tmp_path, "A, C", via, rest).check().build().check()
    loads = accesses(build.asm, "load")
    assert loads.count(True) == loads.count(False) > 0  # those of A, those of B
    assert set(accesses(build.asm, "store")) == {True}
    plain = streamed(tmp_path, "", via, rest).check().build().check()
    assert not any(accesses(plain.asm, "load") + accesses(plain.asm, "store"))
    assert plain.spec.plan.waves == build.spec.plan.waves
    for order in interleavings(3):
        one, other = run(build, order=order), run(plain, order=order)
        assert one.ok and other.ok and one.comparison.max_error == other.comparison.max_error


def test_streams_of_ragged_tensors(tmp_path: Path) -> None:
    build = streamed(tmp_path, "B, C", rest="  tail masked\n", size="100").check().build().check()
    assert set(accesses(build.asm, "store")) == {True}
    assert set(accesses(build.asm, "load")) == {True, False}
    assert all(run(build, order=order).ok for order in interleavings(2))


def test_a_stream_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="E200"):
        streamed(tmp_path, "D")
