"""Specs for Hopper that the schedule cannot run are refused with a message, and nothing is generated of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from gemms import CASES, FUSED, GROUPED, SCALED, SPLIT, TURNS, fused, gemm, grouped, scaled
from sampling import sample

from tkgen.api import load
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError

SPECS = Path(__file__).parents[2] / "specs"


def loaded(text: str) -> HopperSpec:
    spec = load(text, target="sm_90a")
    assert isinstance(spec, HopperSpec)
    return spec


@pytest.mark.parametrize("case", sample([*CASES, *TURNS[3:5], *SPLIT], 3), ids=str)
def test_what_runs_on_the_gpu_is_accepted_and_generated(case: dict[str, object]) -> None:
    spec = loaded(gemm(**case)).check()  # type: ignore[arg-type]
    assert "__global__" in spec.text


@pytest.mark.parametrize("case", GROUPED)
def test_groups_are_generated(case: str) -> None:
    assert "tk::group_walk walk" in loaded(GROUPED[case]).check().text


@pytest.mark.parametrize("case", sample(FUSED, 3))
def test_what_is_fused_behind_products_is_generated(case: str) -> None:
    source = loaded(FUSED[case]).check().text
    assert "__global__" in source and "__builtin" not in source


NOT_FUSED = {
    "two matrices of a tensor": [
        ("dims M", "dims TWO = 2, M"), ("  grid persistent(132)\n", ""),
        ("f32[M, N]", "f32[TWO, M, N]"), ("  Y[m, n] = relu(c)", "  Y[0, m, n] = relu(c)\n  Y[1, m, n] = c"),
    ],
    "sums of three in a block of 128 columns": [
        ("  global Y", "  global Wd : bf16[N, K]\n  global We : bf16[N, K]\n  global Y"),
        ("X, Wc", "X, Wc, Wd, We"), ("buffers 3", "buffers 2"), ("accumulate c", "accumulate c, d, e"),
        ("  Y[m, n] = relu(c)", "    d = d + X[m, k] @ Wd[n, k].T\n    e = e + X[m, k] @ We[n, k].T\n"
                                "  Y[m, n] = relu(c + d + e)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_FUSED)
def test_equations_that_the_back_end_does_not_have_are_refused(what: str) -> None:
    text = fused("relu(c)")
    for old, new in NOT_FUSED[what]:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(SpecError) as error:
        loaded(text).check()
    found = error.value.diagnostics
    assert {d.code for d in found} <= {"E240", "E403"}, [d.message for d in found]
    assert all(d.fix for d in found)


def test_a_ring_that_is_too_large_is_so_for_this_gpu() -> None:
    """Tiles of more than 160 KiB were refused as more than any GPU has, which was the most that AMD's have."""
    spec = loaded(gemm(block=(64, 256, 64), stages=6))
    assert max(o.buffers * o.lds_bytes for o in spec.program.operands) > 160 * 1024
    (found,) = spec.diagnostics
    assert found.code == "E501" and "232448" in found.message + "".join(found.notes)


CONSUMER = "role consumer waves 4..11 as 8 x 1"
REFUSED: dict[str, tuple[str, ...]] = {
    "via": ("via direct", "via registers", "E240"),
    "one stage": ("buffers 4", "buffers 1", "E240"),
    "two rings": ("shared A, B buffers 4 via direct", "shared A buffers 4 via direct\n  shared B buffers 3 via direct",
                  "E240"),
    "register tiles": ("    store C", "    registers A, B slice 16\n    store C", "E240"),
    "f32 operands": (" : bf16[M, K]\n  global B : bf16", " : f32[M, K]\n  global B : f32", "E501"),
    "stream-k that rounds": ("grid persistent(132)", "grid stream_k(132)", "E608"),
    "stream-k of a size that only run time knows": ("M = 200, N", "M = dynamic, N", "E240", "stream_k(132)"),
    "stream-k of consumers that take turns": (
        "    store C", "    store C\n  schedule ping_pong", "E240", "stream_k(7)"),
    "split-k": ("grid persistent(132)", "grid split_k(2)", "E608"),
    "clamped": ("tail masked", "tail clamped", "E240"),
    "occupancy": ("  tail masked", "  tail masked\n  occupancy 1 waves per simd", "E240"),
    "unroll": ("  tail masked", "  tail masked\n  unroll 2", "E240"),
    "phase": ("  tail masked", "  tail masked\n  phase waves 4..7 by 1 cluster", "E240"),
    "schedule": ("    store C", "    store C\n  schedule interleave", "E240"),
    "unused tensor": ("  global C", "  global D : bf16[M, K]\n  global C", "E240"),
    "two producer warpgroups": (
        f"role producer waves 0..3\n    load A, B\n  {CONSUMER}",
        "role producer waves 0..7\n    load A, B\n  role consumer waves 8..15 as 8 x 1", "E240"),
    "a producer each": ("waves 0..3\n    load A, B", "waves 0..1\n    load A\n  role other waves 2..3\n    load B",
                        "E240"),
    "groups of a load": ("load A, B", "load A, B by 2 waves", "E240"),
    "consumers load": ("    accumulate", "    load A\n    accumulate", "E240"),
    "half a warpgroup": (CONSUMER, "role consumer waves 4..9 as 6 x 1", "E206"),
    "side by side": ("as 8 x 1\n    accumulate C : f32 tile 16 x 256", "as 4 x 2\n    accumulate C : f32 tile 32 x 128",
                     "E240"),
    "wrong tile": ("as 8 x 1\n    accumulate C : f32 tile 16 x 256", "as 8 x 1\n    accumulate C : f32 tile 16 x 128",
                   "E240"),
    "an AMD instruction": ("tile 16 x 256", "tile 16 x 256 mfma 32 x 32", "E207"),
    "a quarter of a panel": ("step 64", "step 16", "E240"),
    "odd columns": ("block 128 x 256", "block 128 x 224", "E206"),
    "no tail": ("  tail masked\n", "", "E604"),
    "rows no copy can step over": ("N = 328", "N = 330", "E240"),
    "too many stages": ("buffers 4", "buffers 5", "E501"),
    "another GPU": ("target sm_90a", "target gfx942", "E219"),
    "a remap that is none": ("group(rows = 8)", "gruop(rows = 8)", "E601"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_back_end_does_not_do_is_refused(what: str) -> None:
    old, new, code, *grid = REFUSED[what]
    text = gemm(dims=(200, 328, 136), grid=grid[0], output="f32") if grid else gemm(dims=(200, 328, 136))
    assert old in text
    with pytest.raises(SpecError) as error:
        loaded(text.replace(old, new)).check()
    found = error.value.diagnostics
    assert code in {d.code for d in found}, [d.message for d in found]
    assert all(d.fix for d in found)


NOT_GROUPED = {
    "clusters": ("  grid", "  clusters 2\n  grid"),
    "places in a group": ("Y[m, n] = y", "Y[m, n] = y + m"),
    "one of many outputs": ("Y : bf16[M, N]", "Y : bf16[OFFSETS, M, N]"),
    "a scaled step": ("y = y + X[m, k] @ W[e, n, k].T", "y = y + 2 * (X[m, k] @ W[e, n, k].T)"),
}


@pytest.mark.parametrize("what", NOT_GROUPED)
def test_groups_that_the_back_end_does_not_have_are_refused(what: str) -> None:
    (old, new), text = NOT_GROUPED[what], grouped((1000, 264, 136), 5)
    assert old in text
    text = text.replace(old, new)
    text = text.replace("Y[m, n]", "Y[0, m, n]") if what == "one of many outputs" else text
    with pytest.raises(SpecError) as error:
        loaded(text).check()
    assert {d.code for d in error.value.diagnostics} == {"E240"} and all(d.fix for d in error.value.diagnostics)


def test_steps_of_scaled_products_are_not_divided() -> None:
    text = scaled("2 * p", (200, 336, 384), (128, 128, 64), "bf16").replace("persistent(132)", "split_k(3)")
    with pytest.raises(SpecError, match="does not divide the K-steps of scaled products"):
        loaded(text).check()


def test_clusters_do_not_share_sums() -> None:
    text = gemm(**SPLIT[0]).replace("  grid split_k(4)", "  clusters 2 along m\n  grid split_k(4)")
    with pytest.raises(SpecError, match="do not share the sums"):
        loaded(text).check()


def test_a_ragged_sum_is_refused() -> None:
    found = load(SPECS / "groups" / "grouped_weights.tk", target="sm_90a").diagnostics
    assert any(d.code == "E240" and "no ragged sums yet" in d.message for d in found)


def test_blocks_of_a_cluster_have_whole_tiles_and_no_turns() -> None:
    text = gemm(dims=(200, 328, 136), clusters="2", output="f32")
    loaded(text).check()
    with pytest.raises(SpecError, match="consumers that take turns"):
        loaded(text.replace("    store C", "    store C\n    schedule ping_pong")).check()
    with pytest.raises(SpecError, match="do not share the sums of a tile"):
        loaded(text.replace("persistent(132)", "split_k(3)")).check()


def test_one_consumer_has_nobody_to_take_turns_with() -> None:
    text = gemm(block=(64, 128, 64), dims=(200, 328, 136)).replace("    store C", "    store C\n    schedule ping_pong")
    with pytest.raises(SpecError, match="cannot take turns"):
        loaded(text).check()


BYTES = gemm("NT", (128, 128, 128), operand="fp8", output="fp8", dims=(256, 256, 256))
PROMOTED = SCALED["promoted"]
OF_BYTES = {
    "a contraction that comes first": (BYTES, ("A : fp8[M, K]", "A : fp8[K, M]"), "E204", "neighbors along"),
    "a box that is too wide": (BYTES, ("step 128", "step 320"), "E240", "a K-step of 320 is not a multiple of 64"),
    "half a panel": (BYTES, ("128 x 128 step", "128 x 64 step", "tile 16 x 128", "tile 16 x 64"), "E240",
                     "64 columns of e4m3fn are not a multiple of a panel of 128"),
    "a factor of 16 bits": (BYTES, ("B : fp8", "B : bf16"), "E204", "products of e4m3fn and bf16"),
    "floats of 32 bits": (gemm("NT", (128, 128, 32), operand="f32"), (), "E240", "10 of the 23 fraction bits"),
    "another encoding": (BYTES, ("A : fp8", "A : e4m3fnuz"), "E204", "its fp8 is e4m3fn"),
    "registers of sums and of a step's": (
        PROMOTED, ("by 128\n  grid", "by 256\n  grid", "16 x 128", "16 x 256"), "E403", "384 registers"),
    "one sum that is scaled": (
        PROMOTED, ("  C[m, n] = c", "    d = d + p\n  C[m, n] = c + d", "accumulate c", "accumulate c, d"), "E240",
        "of all sums must be scaled before they are added, or of none"),
    "consumers that take turns": (
        PROMOTED, ("  each k", "  schedule ping_pong\n  each k"), "E240",
        "cannot scale products before they are added"),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_BYTES)
def test_what_8_bit_floats_cannot_be_is_refused(what: str) -> None:
    text, changes, code, said = OF_BYTES[what]
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, (old, text)
        text = text.replace(old, new)
    with pytest.raises(SpecError) as error:
        loaded(text).check()
    found = error.value.diagnostics
    assert any(d.code == code and said in d.message + "".join(d.notes) for d in found), [str(d) for d in found]
    assert all(d.fix for d in found)


def test_columns_that_no_product_has() -> None:
    text = gemm(block=(128, 224, 64), dims=(200, 328, 136))
    with pytest.raises(SpecError, match="no product has 224 columns"):
        loaded(text).check()


def test_three_consumers_have_no_registers_for_256_columns() -> None:
    with pytest.raises(SpecError, match="sums are 128 registers"):
        loaded(gemm(block=(192, 256, 64), stages=3)).check()


@pytest.mark.parametrize("named", [True, False])
def test_a_block_has_as_many_warps_as_this_gpu_can(named: bool) -> None:
    """The 16 waves of a block of AMD's were the limit here, too; the target is the spec's or the caller's to say."""
    text = gemm(block=(256, 64, 64), stages=2)
    most = gemm(block=(512, 64, 64), stages=2)
    texts = [t if named else t.replace("  target sm_90a\n", "") for t in (text, most)]
    assert loaded(texts[0]).check().program.waves == 20
    with pytest.raises(SpecError, match="36 waves, but a block has at most 32"):
        loaded(texts[1])
    if not named:
        with pytest.raises(SpecError, match="20 waves, but a block has at most 16"):
            load(texts[0])


def test_every_spec_of_the_other_gpus_is_told_why_not() -> None:
    accepted = {"projection"}  # it says nothing of single waves but how many there are
    for path in sorted(p for p in SPECS.glob("*.tk") if p.stem not in accepted):
        with pytest.raises(SpecError):
            spec = load(path, target="sm_90a")
            assert isinstance(spec, HopperSpec)
            spec.check()
