"""The generated C++ for Hopper, executed on the CPU, against plain torch: right kernels are right, slips are found."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from gemms import CASES, FUSED, GROUPED, SPLIT, TURNS, gemm, grouped, scaled
from loop_cases import CASES as LOOP_CASES
from loop_cases import Attention
from sampling import sample
from torch import Tensor
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.hopper.host import library, source
from tkgen.backends.hopper.host.run import run
from tkgen.backends.protocol import Modelled
from tkgen.backends.registry import backend_of
from tkgen.cli import app
from tkgen.execute import given, modelled
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.ir.functions import HOPPER
from tkgen.proof.execution import Order
from tkgen.toolchain.compiler import ToolchainError

SPECS = Path(__file__).parents[2] / "specs" / "hopper"
GENERATED = Path(__file__).parents[2] / "generated" / "sm_90a"
EARLY, LATE, LAST = Order(), Order("first", frozenset()), Order("last", frozenset())
RANDOM = Order("random", seed=1)
ORDERS = {"early": EARLY, "late": LATE, "last": LAST, "random": RANDOM}

SQUARE = """\
kernel square
  dims D = 256
  global A : bf16[D, D]
  global B : bf16[D, D]
  global Y : f32[D, D]
  over m in D by 128, n in D by 128
  shared A, B buffers 2 via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..11 as 8 x 1
    accumulate y : f32 tile 16 x 128
  allow slow_reads
  each k in D by 128
    y = y + A[m, k] @ B[n, k].T
  Y[m, n] = y
"""


def launched(
    spec_of: Path | str, sizes: Mapping[str, int] | None = None, order: Order = EARLY,
    edit: Callable[[str], str] | None = None,
) -> tuple[Mapping[str, Tensor], Modelled]:  # fmt: skip
    """Inputs of small integers, and what the C++ makes of them; `edit` changes its text."""
    spec = load(spec_of, dict(sizes or {}), "sm_90a").check()
    launch = spec.launch()
    generator = torch.Generator().manual_seed(0)
    inputs = {
        t.name: torch.randint(-4, 5, launch.shape(t), generator=generator).to(torch.bfloat16)
        for t in spec.program.reads
    }
    return inputs, run(spec, launch, inputs, {}, order, text=edit(spec.text) if edit else None, limit=60)


def replaced(old: str, new: str) -> Callable[[str], str]:
    """An edit of the C++ that must find something to change."""

    def edit(text: str) -> str:
        assert old in text, old
        return text.replace(old, new)

    return edit


LCF = {"M": 128, "N": 512, "K": 320}


def lcf(order: Order = LATE, edit: Callable[[str], str] | None = None) -> tuple[bool, tuple[str, ...]]:
    """True if the product is right, and the findings."""
    inputs, made = launched(SPECS / "h100_lcf.tk", LCF, order, edit)
    wanted = inputs["A"].double() @ inputs["B"].double()
    return torch.equal(made.outputs["C"], wanted.to(torch.bfloat16)), made.findings


@pytest.mark.parametrize("order", ORDERS)
def test_a_product_is_right_in_every_order(order: str) -> None:
    assert lcf(ORDERS[order]) == (True, ())


def test_the_layout_of_a_square_factor() -> None:
    inputs, made = launched(SQUARE)
    assert torch.equal(made.outputs["Y"], (inputs["A"].float() @ inputs["B"].float().T))
    _, other = launched(SQUARE, edit=lambda text: text.replace("mma_ABt(", "mma_AB(").replace("mm_ABt(", "mm_AB("))
    assert not torch.equal(other.outputs["Y"], made.outputs["Y"]) and not other.findings


SLIPS = {
    "a wait for copies left out": (
        "            wait(full[stage], phase);\n            warpgroup::mm_AB",
        "            warpgroup::mm_AB",
    ),
    "a wait for products left out": ("            warpgroup::mma_async_wait();\n            if", "            if"),
    "another stage": ("mma_AB(C_acc, A_s[stage]", "mma_AB(C_acc, A_s[last]"),
    "sums not added to": ("warpgroup::mma_AB(C_acc", "warpgroup::mm_AB(C_acc"),
    "another tile": ("{0, 0, k, tile_col}", "{0, 0, k + 1, tile_col}"),
    "no meeting before the store": (
        "warpgroup::store(panel, values);\n                warpgroup::sync(consumer + 1);",
        "warpgroup::store(panel, values);",
    ),
    "the other phase": ("int stage = 0, phase = 0;", "int stage = 0, phase = 1;"),
    "another consumer's part": ("mma_AB(C_acc, A_s[stage][consumer]", "mma_AB(C_acc, A_s[stage][0]"),
    "all lanes arrive": ("                if (laneid() == 0) arrive", "                arrive"),
    "bytes of one tile alone": ("tma::expect(full[stage], A_s[stage], ", "tma::expect(full[stage], "),
    "no wait for an empty stage": ("                    wait(empty[stage], phase);\n", ""),
    "one product more under way": ("mma_async_wait<1>", "mma_async_wait<2>"),
    "a buffer that is still read": ("store_async_read_wait<STORE_BUFFERS - 1>", "store_async_read_wait<STORE_BUFFERS>"),
    "both consumers at one named barrier": ("warpgroup::sync(consumer + 1)", "warpgroup::sync(1)"),
    "a panel beside its place": ("tile_col * PANELS + p}", "tile_col * PANELS}"),
    "an arrival less to wait for": ("CONSUMERS * WARPGROUP_WARPS);", "WARPGROUP_WARPS);"),
    "registers that no role can have": ("increase_registers<240>", "increase_registers<504>"),
    "tiles that overlap": ("al.allocate<C_tile,", "tma_swizzle_allocator(memory + 256).allocate<C_tile,"),
}
FEW_SLIPS = [*SLIPS][:8]


@pytest.mark.parametrize("slip", [s if s in FEW_SLIPS else pytest.param(s, marks=pytest.mark.slow) for s in SLIPS])
def test_slips_give_wrong_numbers(slip: str) -> None:
    found = (lcf(order, replaced(*SLIPS[slip])) for order in (LATE, LAST, RANDOM))
    assert any(outcome != (True, ()) for outcome in found)


def test_who_waits_for_what() -> None:
    """A hang is a finding, with the names of the C++."""
    _, findings = lcf(edit=replaced("                if (laneid() == 0) arrive(empty[last]);\n", ""))
    assert any("waits for ever for phase" in found and "`empty[0]`" in found for found in findings), findings
    _, findings = lcf(edit=replaced("init_semaphore(full[s], 0, 1),", "init_semaphore(full[s], 1, 1),"))
    assert any("`full[0]`, whose phase 0 lacks 1 arrivals" in found for found in findings), findings


def test_memory_beyond_a_tensor() -> None:
    """A plain store past the end of a tensor ends the launch, which says where."""
    text = "    extern __shared__ int memory[];"
    _, findings = lcf(edit=replaced(text, f"    g.C.raw_ptr[{128 * 512}] = bf16(1.0f);\n{text}"))
    assert any("bytes after the end of `C`" in found for found in findings), findings


def test_shared_memory_is_unknown_before_it_is_written() -> None:
    right, _ = lcf(
        edit=replaced(
            "for (int i = 0; i < CONSUMERS; ++i) tma::load_async", "for (int i = 0; i < 0; ++i) tma::load_async"
        )
    )
    assert not right


FEW_HEADERS = ("the stride of a descriptor", "no fence of what is stored", "halves of a pair")
IN_HEADERS = {
    "the stride of a descriptor": (
        "wgmma.cuh",
        "S::panel_bytes, 8 * SWIZZLE_BYTES",
        "S::panel_bytes, 16 * SWIZZLE_BYTES",
    ),
    "the step along K": ("wgmma.cuh", "k % width * size, 16", "k % width, 16"),
    "no fence before products": ("wgmma.cuh", 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', ""),
    "no fence of what is stored": ("group.cuh", "tkgen::fence_view_async_shared();", ""),
    "halves of a pair": (
        "store.cuh",
        '"r"(pack<T>(d[0])), "r"(pack<T>(d[1]))',
        '"r"(pack<T>(d[1])), "r"(pack<T>(d[0]))',
    ),
    "the swizzle of what is stored": ("store.cuh", "(row % 8) * 16", "(row % 4) * 16"),
    "no commit of a store": ("tma.cuh", 'asm volatile("cp.async.bulk.commit_group;" ::: "memory");', ""),
    "rows and columns of a copy": (
        "tma.cuh",
        '"r"(column), "r"(first.r), "r"(meeting)',
        '"r"(first.r), "r"(column), "r"(meeting)',
    ),
}


@pytest.mark.parametrize(
    "slip", [n if n in FEW_HEADERS else pytest.param(n, marks=pytest.mark.slow) for n in IN_HEADERS]
)
def test_slips_in_the_embedded_headers_are_found(slip: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are executed, too."""
    folder = tmp_path / "include"
    shutil.copytree(source.EMBEDDED, folder)
    name, old, new = IN_HEADERS[slip]
    path = folder / "kittens" / name
    path.write_text(replaced(old, new)(path.read_text()))
    monkeypatch.setattr(source, "EMBEDDED", folder)
    library.library.cache_clear()
    assert any(lcf(order) != (True, ()) for order in (LATE, LAST))
    library.library.cache_clear()


# ---------------------------------------------------------------- every shipped kernel

SIZES: dict[str, dict[str, int]] = {
    "h100_attention": {"BATCH": 1, "HEADS": 2, "KV_HEADS": 1, "LENGTH": 300},
    "h100_attention_backward": {"BATCH": 1, "HEADS": 1, "LENGTH": 200},
    "h100_attention_causal": {"BATCH": 1, "HEADS": 1, "KV_HEADS": 1, "LENGTH": 384, "D": 64, "QUERIES": 192},
    "h100_attention_dynamic": {"BATCH": 1, "HEADS": 2, "KV_HEADS": 1, "LENGTH": 77, "KEYS": 300},
    "h100_block_scaled": {"M": 256, "N": 256, "K": 320},
    "h100_cluster": {"M": 256, "N": 264, "K": 264},
    "h100_double_buffer": {"M": 128, "N": 256, "K": 192},
    "h100_elementwise": {"ROWS": 3, "COLS": 1000},
    "h100_fp8": {"M": 100, "N": 272, "K": 528},
    "h100_fp8_blocks": {"M": 128, "N": 128, "K": 512},
    "h100_fp8_promoted": {"M": 128, "N": 128, "K": 512},
    "h100_grouped": {"TOKENS": 300, "EXPERTS": 3, "OUT": 256, "IN": 192},
    "h100_grouped_heads": {"LENGTH": 128, "KEYS": 128, "HEADS": 2, "KV_HEADS": 1, "D": 128},
    "h100_layernorm": {"TOKENS": 3},
    "h100_lcf": {"M": 200, "N": 264, "K": 136},
    "h100_lcf_abt": {"M": 200, "N": 264, "K": 136},
    "h100_long_softmax": {"ROWS": 2, "D": 40000},
    "h100_mla_decode": {"BATCH": 1, "HEADS": 72, "KEYS": 70},
    "h100_norm_gradient": {"TOKENS": 5, "D": 1000},
    "h100_ping_pong": {"M": 264, "N": 136, "K": 328},
    "h100_projection": {"TOKENS": 100, "OUT": 256, "IN": 192},
    "h100_rmsnorm": {"TOKENS": 3},
    "h100_split_k_gelu": {"TOKENS": 100, "OUT": 264, "IN": 1024},
    "h100_rotary": {"LENGTH": 3, "HEADS": 2},
    "h100_softmax": {"ROWS": 3, "D": 1000},
    "h100_split_k": {"M": 128, "N": 256, "K": 1536},
    "h100_stream_k": {"M": 128, "N": 512, "K": 320},
    "h100_swiglu": {"TOKENS": 128, "HIDDEN": 128, "D": 192},
    "h100_swiglu_gates": {"TOKENS": 128, "HIDDEN": 128, "D": 192},
    "h100_transpose": {"ROWS": 70, "COLS": 200},
}
SAMPLE = ("h100_attention_causal", "h100_cluster", "h100_fp8_blocks", "h100_layernorm", "h100_stream_k")


def test_every_shipped_kernel_is_run() -> None:
    assert {path.stem for path in SPECS.glob("*.tk")} == {path.stem for path in GENERATED.glob("*.cu")} == set(SIZES)


@pytest.mark.parametrize("name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in SIZES])
def test_shipped_kernels_are_right(name: str) -> None:
    path = SPECS / f"{name}.tk"
    found = given.Asked(path, {**check_scalars(load(path).program), **SIZES[name]}, "sm_90a").chosen()
    assert [t.failure for t in modelled.trials(backend_of("sm_90a"), found, 2, executor="host")] == ["", ""]


# ---------------------------------------------------------------- other kernels


def failures(text: str) -> list[str]:
    """Faults in two orders, one for each kind of inputs."""
    spec = load(text).check()
    found = given.Chosen(spec, spec.launch(), {}, check_scalars(spec.program))
    return [t.failure for t in modelled.trials(backend_of("sm_90a"), found, 2, executor="host") if t.failure]


def of_one_head(case: Attention) -> str:
    """The spec with one head of each kind, and one batch."""
    dims = f"BATCH = 2, HEADS = {2 * case.group}, KV_HEADS = 2"
    assert dims in case.text
    return case.text.replace(dims, f"BATCH = 1, HEADS = {case.group}, KV_HEADS = 1")


SCALED_IN_CLUSTERS = scaled("1 * p", (136, 72, 200), (64, 64, 64), "bf16").replace("  tail", "  clusters 2\n  tail")
OF_GROUPS = grouped((72, 72, 72), 5, (64, 64, 64), "s[m] * (y + b[e, n])", grid="grid persistent(2)",
                    more=(("Z", "f32", "y"),))  # fmt: skip
IN_CLUSTERS = gemm(clusters="2", grid="persistent(2)", block=(64, 128, 64), stages=2, dims=(136, 200, 136))
OTHERS = {
    **{layouts: gemm(layouts, (64, 64, 64), grid="persistent(2)", dims=(72, 136, 136))
       for layouts in ("NN", "NT", "TN", "TT")},
    "parts of K, in turns": gemm("TN", (128, 64, 64), 3, output="f32", grid="split_k(3)", dims=(72, 136, 384),
                                 consumers=2),
    "three consumers in turn": gemm(block=(192, 64, 64), stages=3, output="f32", grid="persistent(1)",
                                    dims=(200, 72, 328), consumers=3),
    "runs of steps": gemm(block=(64, 64, 64), stages=2, output="f32", grid="stream_k(3)", dims=(72, 136, 328)),
    "clusters along columns": gemm("TT", (64, 64, 64), 2, grid="linear", dims=(64, 136, 200), clusters="2 along n"),
    "clusters of two tiles each": IN_CLUSTERS,
    "scaled, in clusters": SCALED_IN_CLUSTERS,
    "groups of ragged rows": OF_GROUPS,
    "parts of K of groups, in turns": grouped((200, 136, 384), 3, (128, 64, 64), output="f32", grid="grid split_k(3)",
                                              turns=2),
    "attention of 192 dimensions": of_one_head(Attention(100, 100, 192, 128, 64, 2, True)),
    "attention of several tiles": of_one_head(Attention(200, 150, 64, 128, 64, persistent=1)),
}  # fmt: skip
"""What shipped kernels do not have, at few blocks. Stages of `scaled, in clusters` once went back to the block's own
producer alone, once for both: the kernel hung.
"""


@pytest.mark.parametrize("name", sample(OTHERS, 2))
def test_other_kernels_are_right(name: str) -> None:
    assert not failures(OTHERS[name])


MOST = 2**26  # multiplications
PRODUCTS = [c for c in (*CASES, *TURNS, *SPLIT) if math.prod(c.get("dims", (1024,) * 3)) <= MOST]
FORMULAS = [text for name, text in FUSED.items() if name != "blocks, many tiles"]
LOOPS = [case for case in LOOP_CASES if case.queries * case.keys <= 2**17]


@pytest.mark.slow
@pytest.mark.parametrize("text", [*(gemm(**c) for c in PRODUCTS), *FORMULAS, *GROUPED.values()])
def test_all_products_are_right(text: str) -> None:
    assert not failures(text)


@pytest.mark.slow
@pytest.mark.parametrize("case", LOOPS, ids=str)
def test_all_attention_is_right(case: Attention) -> None:
    assert not failures(of_one_head(case))


OTHER_SLIPS = {
    "a row of the next group": (OF_GROUPS, ", walk.end)", ", min(walk.end + 1, walk.size))"),
    "without a group's last row": (OF_GROUPS, ", walk.end)", ", walk.end - 1)"),
    "a stage goes back to one block": (IN_CLUSTERS, "laneid() < CLUSTER", "laneid() == 0"),
    "a stage goes back to the first block twice": (IN_CLUSTERS, "empty[last], laneid()", "empty[last], 0"),
}


@pytest.mark.parametrize("slip", OTHER_SLIPS)
def test_slips_in_other_kernels_are_found(slip: str) -> None:
    text, old, new = OTHER_SLIPS[slip]
    spec = load(text).check()
    launch, scalars = spec.launch(), check_scalars(spec.program)
    inputs = random_inputs(launch, 1, Inputs.NORMAL, HOPPER)

    def bits(order: Order, of: str = spec.text) -> object:
        made = run(spec, launch, inputs, scalars, order, text=of, limit=60)
        return made.findings or {name: t.view(torch.uint8).tolist() for name, t in made.outputs.items()}

    assert bits(LATE) == bits(EARLY) != bits(LATE, replaced(old, new)(spec.text))


# ---------------------------------------------------------------- the command line


def tkgen(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_run_executes_the_generated_code() -> None:
    code, out = tkgen("run", SPECS / "h100_lcf.tk", "-D", "M=200 N=264 K=136", "--schedules", 2)
    assert code == 0 and "\nthe generated C++ on the CPU, not the machine code\n" in out and out.count(" right ") == 2
    code, out = tkgen("run", SPECS / "h100_softmax.tk", "-D", "ROWS=3 D=1000", "--json")
    (row,) = json.loads(out)
    assert code == 0 and row["executor"] == "host" and row["ok"] and not row["modelled"]


def test_run_says_that_generated_code_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C++ has another instruction than the schedule, which the model cannot see."""
    monkeypatch.setattr(
        library, "host_source", lambda text, of=library.host_source: of(text.replace("mma_AB(", "mm_AB("))
    )
    sizes = ("-D", "M=200 N=264 K=136")
    library.library.cache_clear()
    code, out = tkgen("run", SPECS / "h100_lcf.tk", *sizes)
    assert code == 1 and "WRONG" in out
    code, out = tkgen("run", SPECS / "h100_lcf.tk", *sizes, "--executor", "model")
    assert code == 0 and "WRONG" not in out
    library.library.cache_clear()


def test_without_a_compiler_nothing_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> list[str]:
        raise library.EmulateError("none")

    monkeypatch.setattr(library, "host_compiler", missing)
    with pytest.raises(ToolchainError, match=r"needs a C\+\+ compiler.*apt install g\+\+.*--executor model"):
        launched(SPECS / "h100_lcf.tk", LCF)
    code, out = tkgen("run", SPECS / "h100_lcf.tk", "-D", "M=128 N=256 K=64")
    assert code not in (0, 1) and "right" not in out


@pytest.mark.parametrize("words", [("--executor", "gpu"), ("--device", "gpu", "--executor", "host")])
def test_executors_that_there_are_not(words: tuple[str, ...]) -> None:
    assert tkgen("run", SPECS / "h100_lcf.tk", *words)[0] == 2


def test_amd_kernels_have_no_executor() -> None:
    code, out = tkgen("run", SPECS.parent / "one_wave.tk", "-D", "M=64 N=64 K=64", "--executor", "host")
    assert code == 2 and "is for sm_90a" in out


def test_verify_compares_numbers() -> None:
    code, out = tkgen("verify", SPECS / "h100_lcf.tk", "-D", "M=200 N=264 K=136")
    assert code == 0 and out.count(" right ") == 4 and "compared within bounds" in out
