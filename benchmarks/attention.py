"""The compiled main loops of attention beside those of Triton and HipKittens, for the same block, in one run.

    python benchmarks/attention.py [--write]

After it, gradients: the deterministic pair of kernels, and the one that adds dQ atomically; then predicted TFLOP/s at
lengths from 1024 to 16384. `--write` puts the tables into docs/codegen.md, the
predictions into docs/prediction.md. None has been measured.

Each row is one iteration of the loop, for a wave, as it stands in the machine code: branches that are seldom taken
count, too. All except registers are per MFMA, counted in those of 32 x 32 x 8 on gfx942 and of 32 x 32 x 16 on gfx950:
the same work of the matrix unit in every row of a target. `exp / element` is of transcendental instructions, per
element of the scores; `vector` is the other vector instructions, `hints` s_nop and s_setprio.

HipKittens' kernel is a figure, not code: `kernels/attn/gqa/kernel.cpp` of its commit f09e9685 (November 2025), compiled
by clang 22 with its own options (-O3 -ffast-math), of whose loop four passes are unrolled.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pages
from rich.console import Console
from rich.table import Table

import tkgen
from tkgen.backends.cdna.fused import FUSED
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.ir.equations import Product, walk
from tkgen.predict import predict
from tkgen.sequence import SequenceBuild
from tkgen.targets import load_target
from tkgen.toolchain.isa import instruction_mix, main_loop, parse_asm

ROOT = Path(__file__).parent.parent
DEPTH = {"gfx942": 8, "gfx950": 16}  # of the MFMAs in which is counted
LANES = 64
LENGTHS, TOKENS, HEADS = (1024, 2048, 4096, 8192, 16384), 16384, 16  # TOKENS: of all sequences of a batch together
KINDS = (
    "vector", "transcendental", "scalar", "branches", "LDS reads", "LDS writes", "global", "waits", "barriers", "hints",
)  # fmt: skip
TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")


@dataclass(frozen=True)
class Figures:
    """One iteration: VGPRs, AGPRs, spills; instructions of each of KINDS, LDS bytes of a wave, an MFMA; `exp` an
    element."""

    registers: tuple[int, int, int]
    kinds: tuple[float, ...]
    exp: float
    lds_bytes: float

    @property
    def others(self) -> float:
        """Instructions that are no MFMAs."""
        return sum(self.kinds)

    def row(self, name: str) -> list[str]:
        """Columns of the printed table."""
        numbers = [*(f"{k:.2f}" for k in self.kinds), f"{self.others:.2f}", f"{self.exp:.2f}", f"{self.lds_bytes:.0f}"]
        return [name, *map(str, self.registers), *numbers]


# Of 128 MFMAs: what clang makes of it.
HIPKITTENS = Figures((238, 0, 0), tuple(n / 128 for n in (561, 132, 78, 9, 192, 0, 16, 16, 16, 40)), 1.031, 1152)


def figures(asm: str, target: str, d: int, registers: tuple[int, int, int]) -> Figures:
    """The figures of a kernel of head dimension `d`, of its assembly."""
    loop = main_loop(next(iter(parse_asm(asm).values())))
    assert loop is not None
    mix = instruction_mix(loop.instructions)
    products = sum(count * _product(shape) for shape, count in mix.mfma.items())
    mfmas = products / (32 * 32 * DEPTH[target])
    memory = [mix.global_loads, mix.global_to_lds, mix.global_stores]
    moves = sum(sum(table.values()) for table in memory) + mix.global_other + mix.scratch + mix.flat
    exps = sum(TRANSCENDENTAL.match(x.mnemonic) is not None for x in loop.instructions)
    counts = (
        mix.valu - exps, exps, mix.salu + mix.scalar_loads, mix.branches, sum(mix.lds_reads.values()) + mix.lds_other,
        sum(mix.lds_writes.values()), moves, mix.waits, mix.barriers, mix.other,
    )  # fmt: skip
    assert sum(counts) == mix.total - mix.mfma_total
    moved = [mix.lds_reads, mix.lds_writes, mix.global_to_lds]
    bits = sum(width * count for table in moved for width, count in table.items())
    elements = products / (2 * d) / LANES  # of the scores, for a lane: both products take `d` of each
    return Figures(registers, tuple(c / mfmas for c in counts), exps / elements, bits / 8 * LANES / mfmas)


def _product(shape: str) -> int:
    """Multiplications of an MFMA of a shape such as 32x32x8_bf16."""
    rows, cols, depth = map(int, re.findall(r"\d+", shape)[:3])
    return rows * cols * depth


def ours(name: str, target: str, d: int) -> Figures:
    """A bundled spec."""
    build = tkgen.load(ROOT / "specs/attention" / f"{name}.tk", target=target).build()
    assert isinstance(build, Build)
    r = build.resources
    return figures(build.asm, target, d, (r.vgpr, r.agpr, r.vgpr_spills))


def triton(target: str, block: tuple[int, int, int], waves: int, stages: int) -> Figures:
    """Triton's for a block of (rows, keys of an iteration, D)."""
    from triton_attention import compile_attention

    asm = compile_attention(target, block, waves, stages).asm
    count = {k: int(v) for k, v in re.findall(r"\.(vgpr_count|agpr_count|vgpr_spill_count):\s+(\d+)", asm)}
    agpr = count.get("agpr_count", 0)
    # The count of its metadata is of both kinds together, where there are both.
    registers = (count["vgpr_count"] - (agpr if count["vgpr_count"] > 256 else 0), agpr, count["vgpr_spill_count"])
    return figures(asm, target, block[2], registers)


def gradients(target: str) -> Iterator[list[str]]:
    """A row for each way to the gradients: of the loops that it has, for 32 x 32 scores of a wave, D = 128."""
    ways = {"deterministic": "attention_backward_causal", "atomic": "attention_backward_atomic"}
    for way, name in ways.items():
        text = (ROOT / "specs/attention" / f"{name}.tk").read_text(encoding="utf-8")
        if target == "gfx950":
            text = text.replace(
                "Q, GO, SHIFT, DELTA buffers 2", "Q, GO buffers 2 via direct\n  shared SHIFT, DELTA buffers 2"
            )
            text = text.replace("K, V buffers 2", "K, V buffers 2 via direct")
        build = tkgen.load(text, target=target).build()
        assert isinstance(build, SequenceBuild)
        loops = [kernel for kernel in build.kernels if kernel.spec.form is FUSED]
        rows = [_for_scores(kernel, target) for kernel in loops]
        for kernel, row in zip(loops, rows, strict=True):
            r = kernel.resources
            yield [f"{way}, `{kernel.spec.name}`", f"{r.vgpr} + {r.agpr}", str(r.vgpr_spills), *map(str, row)]
        if len(rows) > 1:
            yield [f"{way}, both", "", "", *(str(sum(column)) for column in zip(*rows, strict=True))]


def _for_scores(build: Build, target: str) -> list[int]:
    """MFMAs for 32 x 32 scores, of D = 128, instructions of each kind, all that are no MFMAs, LDS bytes."""
    found = figures(build.asm, target, 128, (0, 0, 0))
    mfmas = sum(isinstance(op, Product) for op in walk(build.spec.program.kernel.body)) * 128 // DEPTH[target]
    return [mfmas, *(round(n * mfmas) for n in (*found.kinds, found.others, found.lds_bytes))]


def specs(target: str) -> Sequence[tuple[str, int]]:
    """The bundled specs of attention that a target takes, with their head dimensions."""
    found = []
    for path in sorted((ROOT / "specs/attention").glob("*.tk")):
        spec, own = tkgen.load(path, target=target), tkgen.load(path).target.name
        fused = isinstance(spec, Spec) and spec.form is FUSED
        if fused and own in ("gfx942", target):  # gfx942 is what a spec is for that names none
            size = next(d.size for t in spec.program.kernel.tensors for d in t.dims if d.name == "D")
            assert size is not None
            found.append((path.stem, size))
    return found


# ---------------------------------------------------------------- predictions


def forms(target: str) -> Mapping[str, str]:
    """The kernels of D = 128 whose speed is predicted, by what they are called: their specs."""
    plain, interleaved, direct, halves, direct_halves = (
        (ROOT / "specs/attention" / f"attention{name}.tk").read_text(encoding="utf-8")
        for name in ("", "_interleaved", "_direct", "_ping_pong", "_ping_pong_direct")
    )
    found = {"128 queries, 4 waves": plain, "the same, interleaved": interleaved}
    if target == "gfx950":
        found["128 queries, 4 waves, direct"] = plain.replace("buffers 2", "buffers 2 via direct")
        found["the same, interleaved, direct"] = interleaved.replace("buffers 2", "buffers 2 via direct")
        found["256 queries, 8 waves, direct"] = direct
    found["256 queries, 8 waves, ping-pong"] = direct_halves if target == "gfx950" else halves
    return found


def causal(text: str) -> str:
    """The same kernel, where a query sees the keys up to its own place."""
    bounded = text.replace("each j in LENGTH by 64\n", "each j in LENGTH by 64 to q\n")
    masked = bounded.replace("    n = max(", "    s = where(q >= j, s, -inf)\n    n = max(")
    assert bounded != text and masked != bounded
    return masked


def predicted(text: str, target: str, length: int, masked: bool) -> float:
    """TFLOP/s of 16 heads of sequences of that length; half the products count where half of the scores do."""
    sizes = {"BATCH": TOKENS // length, "HEADS": HEADS, "LENGTH": length, "D": 128}
    build = tkgen.load(causal(text) if masked else text, sizes, target=target).build()
    assert isinstance(build, Build)
    flops = 4 * TOKENS * HEADS * length * 128 / (1 + masked)
    return flops / predict(build, what_if=False).seconds / 1e12


def predictions() -> Iterator[list[str]]:
    """A row for each kernel: target, kernel, causal or not, and its speed at each length."""
    for target in DEPTH:
        product = load_target(target).product.name
        for masked in (False, True):
            for name, text in forms(target).items():
                speeds = [f"{predicted(text, target, length, masked):.0f}" for length in LENGTHS]
                yield [product, name, "causal" if masked else "all keys", *speeds]


def show_predictions(write: bool) -> None:
    """Print them, and put them into the documentation."""
    headings = ["GPU", "kernel", "sees", *map(str, LENGTHS)]
    table = Table(title=f"attention, forward, D = 128, {TOKENS} tokens, {HEADS} heads: predicted TFLOP/s, not measured")
    for heading in headings:
        table.add_column(heading, justify="right" if heading.isdigit() else "left")
    rows = list(predictions())
    for row in rows:
        table.add_row(*row)
    Console(width=200).print(table)
    if write:
        pages.put("prediction.md", "attention", pages.markdown(headings, rows, words=3))


def loops(target: str) -> Iterator[list[str]]:
    """A row for each kernel that a target takes: ours, then those of others."""
    for name, d in specs(target):
        yield ours(name, target, d).row(f"tkgen {name}, D = {d}")
    for rows, d, waves in ((128, 64, 4), (128, 128, 4), (256, 128, 8)):
        for stages in (1, 2):
            name = f"Triton {rows} x 64, D = {d}, {waves} warps, {stages} stage{'s' * (stages > 1)}"
            yield triton(target, (rows, 64, d), waves, stages).row(name)
    if target == "gfx950":
        yield HIPKITTENS.row("HipKittens 256 x 64, D = 128, 8 waves")


def show_gradients(write: bool) -> None:
    """Print them, and put them into the documentation."""
    headings = ("kernel", "registers", "spills", "MFMA", *KINDS, "all others", "LDS bytes")
    for target in DEPTH:
        table = Table(title=f"gradients of attention, causal, {target}, bf16, for 32 x 32 scores of a wave")
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "kernel" else "right")
        rows = list(gradients(target))
        for row in rows:
            table.add_row(*row)
        Console(width=220).print(table)
        if write:
            pages.put("codegen.md", f"gradients {target}", pages.markdown(headings, rows))


def main() -> None:
    write = "--write" in sys.argv[1:]
    headings = ("kernel", "VGPR", "AGPR", "spills", *KINDS, "all others", "exp / element", "LDS bytes")
    for target in DEPTH:
        table = Table(title=f"attention, forward, {target}, bf16, one pass, per MFMA of 32x32x{DEPTH[target]}")
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "kernel" else "right")
        rows = list(loops(target))
        for row in rows:
            table.add_row(*row)
        Console(width=220).print(table)
        if write:
            pages.put("codegen.md", f"attention {target}", pages.markdown(headings, rows))
    show_gradients(write)
    show_predictions(write)


if __name__ == "__main__":
    main()
