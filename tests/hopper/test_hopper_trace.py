"""Generated C++ has the steps of the schedule that is proven: recorded on the host, compared one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gemms import CASES as PRODUCTS
from gemms import FUSED, GROUPED, RAGGED, SPLIT, TURNS, gemm
from loop_cases import CASES as LOOPS
from loop_cases import Attention
from mutating.hopper_sources import mutants
from mutating.traces import Difference, compare, kernel, recorder

from tkgen.api import load

SPECS = Path(__file__).parents[2] / "specs" / "hopper"
GENERATED = Path(__file__).parents[2] / "generated" / "sm_90a"

FEW = {"M": 4096, "N": 4096, "K": 576}  # a block of 132 has some tiles, of nine steps, or five of 128
SIZES: dict[str, dict[str, int]] = {
    "h100_attention": {"BATCH": 1, "HEADS": 16, "KV_HEADS": 4, "LENGTH": 1280},
    "h100_attention_causal": {"BATCH": 1, "HEADS": 2, "KV_HEADS": 2, "LENGTH": 1024, "D": 64, "QUERIES": 192},
    "h100_cluster": FEW,
    "h100_double_buffer": FEW,
    "h100_fp8": FEW | {"K": 1152},
    "h100_fp8_blocks": FEW | {"M": 2048, "K": 1408},
    "h100_fp8_promoted": FEW | {"M": 2048, "K": 1280},
    "h100_grouped": {"IN": 576, "OUT": 512},
    "h100_grouped_heads": {},
    "h100_lcf": FEW,
    "h100_lcf_abt": FEW | {"K": 520},
    "h100_ping_pong": FEW | {"K": 320},
    "h100_projection": {"TOKENS": 4000, "OUT": 4096, "IN": 320},
    "h100_split_k": {"K": 8192},
    "h100_stream_k": {"K": 1088},
    "h100_swiglu": {"TOKENS": 2048, "HIDDEN": 2048, "D": 320},
    "h100_swiglu_gates": {"TOKENS": 2048, "HIDDEN": 2048, "D": 320},
}
ROWS_OF_GROUPS = {"TOKENS": 4000}
OFFSETS = [min(n * n, 4000) for n in range(64)] + [4000]  # the first groups have few rows, the last one 31


def traced(spec: object, where: Path, *blocks: int, text: str = "", **more: object) -> int:
    """The steps that the busy clusters of these numbers have in common with their schedules; without any all have."""
    made = kernel(spec, **more)  # type: ignore[arg-type]
    busy = made.busy
    record = recorder(text or spec.text, where)  # type: ignore[attr-defined]
    return compare(made, record, [busy[n] for n in blocks] or busy)


@pytest.mark.parametrize("name", SIZES)
def test_specs_have_the_steps_of_their_schedules(name: str, tmp_path: Path) -> None:
    spec = load(SPECS / f"{name}.tk", SIZES[name])
    more = {"sizes": ROWS_OF_GROUPS, "offsets": OFFSETS} if name == "h100_grouped" else {}
    assert traced(spec, tmp_path, 0, -1, **more) > 300


def test_every_kernel_with_mbarriers_is_traced() -> None:
    assert {path.stem for path in GENERATED.glob("*.cu") if "semaphore" in path.read_text()} == set(SIZES)


def test_assembly_of_generated_files_is_arithmetic() -> None:
    """What a thread tells others, the copy engine or the matrix units stands in the embedded headers alone."""
    texts = [path.read_text() for path in GENERATED.glob("*.cu")]
    found = {word for text in texts for word in re.findall(r'\basm(?: volatile)?\("([^ "]*)', text)}
    assert found == {"", "ex2.approx.ftz.f32", "rcp.approx.ftz.f32"}


@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_every_layout(layouts: str, tmp_path: Path) -> None:
    assert traced(load(gemm(layouts, dims=RAGGED)), tmp_path)


FEW_CASES = [
    SPLIT[3],
    {"clusters": "2 along n", "layouts": "TT", "grid": "linear", "block": (64, 64, 64), "dims": (64, 136, 200)},
    {"consumers": 3, "block": (192, 128, 64), "stages": 4, "dims": (584, 264, 712), "output": "f32"},
    {"grid": "stream_k(7)", "output": "f32", "block": (64, 64, 64), "dims": (200, 328, 576)},
]  # fmt: skip


@pytest.mark.parametrize("case", FEW_CASES, ids=str)
def test_other_schedules(case: dict[str, object], tmp_path: Path) -> None:
    assert traced(load(gemm(**case)), tmp_path)


def test_products_that_are_scaled_in_clusters(tmp_path: Path) -> None:
    """Their stages were given back to the block's own producer alone, once for both: the kernel hung."""
    assert traced(load(FUSED["scaled, in clusters"]), tmp_path)


SOME_LOOPS = [Attention(300, 300, 192, 128, 64, 2, True), Attention(1000, 700, persistent=3)]


@pytest.mark.parametrize("case", SOME_LOOPS, ids=str)
def test_loops(case: Attention, tmp_path: Path) -> None:
    assert traced(case.spec(), tmp_path, 0, -1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_specs_at_their_own_sizes(name: str, tmp_path: Path) -> None:
    more = {"sizes": ROWS_OF_GROUPS, "offsets": OFFSETS} if name == "h100_grouped" else {}
    text = (GENERATED / f"{name}.cu").read_text()
    assert traced(load(SPECS / f"{name}.tk"), tmp_path, 0, text=text, **more)


SMALL = [gemm(**c) for c in (*PRODUCTS, *TURNS, *SPLIT) if c.get("dims", (1024,) * 3)[0] <= 640]


@pytest.mark.slow
@pytest.mark.parametrize("text", [*SMALL, *FUSED.values(), *GROUPED.values()])
def test_all_products(text: str, tmp_path: Path) -> None:
    assert traced(load(text), tmp_path, 0, -1)


@pytest.mark.slow
@pytest.mark.parametrize("case", LOOPS, ids=str)
def test_all_loops(case: Attention, tmp_path: Path) -> None:
    assert traced(case.spec(), tmp_path, 0, -1)


# ---------------------------------------------------------------- C++ that is another


GIVES_BACK = "if (laneid() == 0) arrive(empty[last]);\n"
LAST_WAIT = "            warpgroup::mma_async_wait();\n            "
STORE = "warpgroup::store(panel, values);\n"
READ_WAIT = "store_async_read_wait<STORE_BUFFERS"
EXPECT = "tma::expect(full[stage], A_s[stage], B_s[stage])"

MUTANTS = {
    "the other phase": ("int stage = 0, phase = 0;", "int stage = 0, phase = 1;", "`wait full 0 0`, C++ `wait"),
    "another stage": ("mma_AB(C_acc, A_s[stage][consumer]", "mma_AB(C_acc, A_s[last][consumer]", "`multiply"),
    "another consumer's part": ("mma_AB(C_acc, A_s[stage][consumer]", "mma_AB(C_acc, A_s[stage][0]", "`multiply"),
    "sums that are not added to": ("warpgroup::mma_AB(C_acc", "warpgroup::mm_AB(C_acc", "`multiply"),
    "a stage that is not given back": ("                " + GIVES_BACK, "", "`arrive empty 0"),
    "all lanes arrive": ("                if (laneid() == 0) arrive", "                arrive", "lane 1 of warp 4"),
    "bytes of one tile alone": (EXPECT, EXPECT.replace("A_s[stage], ", ""), "expects 32768 bytes, and 49152 come"),
    "another step's tile": ("{0, 0, k, tile_col}", "{0, 0, k + 1, tile_col}", "`load"),
    "no wait for a stage": ("                    wait(empty[stage], phase);\n", "", "`wait empty 0 1`, C++ `expect"),
    "no wait for products": ("            warpgroup::mma_async_wait();\n", "", "`multiplied 0`, C++ `arrive"),
    "one product more under way": ("mma_async_wait<1>", "mma_async_wait<2>", "`multiplied 1`, C++ `multiplied 2`"),
    "sums that are read early": (LAST_WAIT + GIVES_BACK, f"panel_of(C_acc, 0);\n{LAST_WAIT}{GIVES_BACK}",
                                 "C++ `touched in flight`"),
    "a store before the others have written": (f"{STORE}                warpgroup::sync(consumer + 1);", STORE,
                                               "`sync group 0 128`, C++ `store"),
    "a buffer that is still read": (f"{READ_WAIT} - 1>", f"{READ_WAIT}>", "`read 1`"),
    "both consumers at one named barrier": ("warpgroup::sync(consumer + 1)", "warpgroup::sync(1)", "`sync group 1"),
    "a panel beside its place": ("tile_col * PANELS + p}", "tile_col * PANELS}", "`store"),
    "an arrival less to wait for": ("CONSUMERS * WARPGROUP_WARPS);", "WARPGROUP_WARPS);", "is set up for 4 arrivals"),
    "registers of the other role": ("increase_registers<240>", "increase_registers<232>", "asks for registers"),
    "tiles that overlap": ("al.allocate<C_tile,", "tma_swizzle_allocator(memory + 256).allocate<C_tile,",
                           "tiles overlap"),
    "set up behind the meeting": ("    __syncthreads();\n", "", "first meeting"),
    "another order of tiles": ("group_rows = 8;", "group_rows = 4;", "`load"),
}  # fmt: skip


@pytest.mark.parametrize(
    "mutant", [m if n % 3 == 0 else pytest.param(m, marks=pytest.mark.slow) for n, m in enumerate(MUTANTS)]
)
def test_other_steps_are_found(mutant: str, tmp_path: Path) -> None:
    old, new, said = MUTANTS[mutant]
    spec = load(SPECS / "h100_lcf.tk", FEW)
    assert old in spec.text
    with pytest.raises(Difference, match=re.escape(said)):
        traced(spec, tmp_path, 0, text=spec.text.replace(old, new))


def is_right(kind: str, what: str) -> bool:
    """Whether it is no slip: of two mbarriers, or their arrays, either may be set up first."""
    return kind == "two steps exchanged" and "init_semaphore" in what


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h100_lcf", "h100_ping_pong", "h100_cluster", "h100_attention", "h100_stream_k"])
def test_every_slip_is_found(name: str, tmp_path: Path) -> None:
    spec = load(SPECS / f"{name}.tk", SIZES[name])
    same = []
    for kind, what, text in mutants(spec.text):
        try:
            traced(spec, tmp_path, 0, -1, text=text)
        except Difference:
            continue
        same.append((kind, what))
    assert not [each for each in same if not is_right(*each)]


OTHER_ROWS = {
    "one more": ("row + r < end", "row + r < min(end + 1, to.rows())", "of no group's end"),
    "one less": ("row + r < end", "row + r < end - 1", "are not stored from"),
    "from another buffer": ("panel, row, tile_col", "Y_s[consumer][0], row, tile_col", "are not stored from"),
}


@pytest.mark.parametrize("mutant", OTHER_ROWS)
def test_rows_that_warps_store_are_those_of_the_group(mutant: str, tmp_path: Path) -> None:
    old, new, said = OTHER_ROWS[mutant]
    spec = load(GROUPED["groups"])
    assert old in spec.text
    with pytest.raises(Difference, match=said):
        traced(spec, tmp_path, text=spec.text.replace(old, new))


def test_a_stage_of_a_cluster_goes_back_to_both_blocks(tmp_path: Path) -> None:
    spec = load(gemm(clusters="2", grid="persistent(2)", block=(64, 128, 64), stages=2, dims=(136, 200, 136)))
    for old, new in (("laneid() < CLUSTER", "laneid() == 0"), ("empty[last], laneid()", "empty[last], 0")):
        with pytest.raises(Difference, match="lane 1 of warp"):
            traced(spec, tmp_path, text=spec.text.replace(old, new))
