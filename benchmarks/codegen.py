"""The compiled main loop of our kernels beside Triton's, for the same block shapes, in one run.

    python benchmarks/codegen.py [--write]

`--write` puts the tables into docs/codegen.md. Each row is one iteration of the loop that multiplies, per wave.
`others/MFMA` counts every instruction that is no MFMA, per MFMA of 16x16x16 (a 32x32x8 counts as two of them).
`hoistable` counts what gives the same in every iteration.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pages
from rich.console import Console
from rich.table import Table

import tkgen
from tkgen.build import Build
from tkgen.toolchain.isa import Instruction, InstructionMix, instruction_mix, main_loop, parse_asm

LOW_PRECISION = Path(__file__).parent.parent / "specs" / "low_precision"
SHAPES = [((128, 128, 64), 4), ((256, 128, 64), 8), ((256, 256, 64), 8)]
HEADINGS = (
    "kernel", "VGPR", "AGPR", "spills", "instr.", "MFMA", "LDS reads", "LDS writes", "global loads", "barriers",
    "waits", "hoistable", "others/MFMA",
)  # fmt: skip
SPEC = """# {rows} x {cols} x {step}: what tkgen's own choice of schedule makes of it
kernel gemm_{rows}_{cols}
  dims M = 8192, N = 8192, K = 8192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block {rows} x {cols} step {step}
  waves {waves}
  shared A, B via registers
  registers A, B slice 32
  accumulate C : f32 tile 32 x 32
  store C
  schedule auto
"""


def equivalent_mfmas(mix: InstructionMix) -> int:
    """MFMAs in units of 16x16x16."""
    total = 0
    for shape, count in mix.mfma.items():
        m, n, k = map(int, re.findall(r"\d+", shape)[:3])
        total += count * m * n * k // (16 * 16 * 16)
    return total


def built(shape: tuple[int, int, int], waves: int, folder: Path) -> Build:
    """tkgen's own choice for a block shape; `folder` gets its spec."""
    rows, cols, step = shape
    path = folder / f"gemm_{rows}_{cols}.tk"
    path.write_text(SPEC.format(rows=rows, cols=cols, step=step, waves=waves))
    return tkgen.load(path).check().build().check()


REGISTER = re.compile(r"(?<![\w.])([vsa])(?:(\d+)|\[(\d+):(\d+)\])|\b(vcc|m0|exec|scc)\b")
ACCUMULATES = re.compile(r"s_\w+k_i32|v_\w*(?:mac|fmac)_")  # the destination is an operand as well
# Not arithmetic, or without a register as its result.
FIXED = re.compile(r"v_mfma|v_cmp|s_(?:barrier|waitcnt|setprio|nop|sched|c?branch|cmp|bitcmp|load|buffer|sleep|endpgm)")


def registers(text: str) -> set[str]:
    """The registers that an operand names."""
    found = set()
    for m in REGISTER.finditer(text):
        if m[5]:
            found.add(m[5])
        else:
            found |= {f"{m[1]}{i}" for i in range(int(m[2] or m[3]), int(m[2] or m[4]) + 1)}
    return found


def hoistable(loop: Sequence[Instruction]) -> list[Instruction]:
    """The arithmetic of a loop of one block whose operands no pass changes: it could stand before the loop."""
    written: dict[str, list[int]] = {}
    for at, x in enumerate(loop):
        if x.operands and not x.mnemonic.startswith(("ds_write", "buffer_store", "global_store")):
            for name in registers(x.operands[0]):
                written.setdefault(name, []).append(at)
    same: set[int] = set()
    for at, x in enumerate(loop):
        if not x.mnemonic.startswith(("v_", "s_")) or FIXED.match(x.mnemonic):
            continue
        reads = x.operands if ACCUMULATES.match(x.mnemonic) else x.operands[1:]
        sources = [written.get(name, []) for name in registers(" ".join(reads))]
        if all(not places or (places[0] < at and max(p for p in places if p < at) in same) for places in sources):
            same.add(at)
    return [loop[at] for at in sorted(same)]


def figures(name: str, asm: str, registers: tuple[int, int, int]) -> list[str]:
    function = next(iter(parse_asm(asm).values()))
    loop = main_loop(function)
    assert loop is not None
    mix = instruction_mix(loop.instructions)
    mfmas = equivalent_mfmas(mix)

    def widths(table: dict[int, int]) -> str:
        return ", ".join(f"{n} b{bits}" for bits, n in sorted(table.items())) or "0"

    others = mix.total - sum(mix.mfma.values())
    return [
        name, str(registers[0]), str(registers[1]), str(registers[2]), str(mix.total), str(mfmas),
        widths(mix.lds_reads), widths(mix.lds_writes), widths(mix.global_loads), str(mix.barriers), str(mix.waits),
        str(len(hoistable(loop.instructions))), f"{others / mfmas:.3f}",
    ]  # fmt: skip


def main() -> None:
    for title, mark, rows in (
        ("main loop, gfx942, bf16, one pass", "products", list(products())),
        ("main loop, floats of 8, 6 and 4 bits and whole numbers, one pass", "low precision", list(low_precision())),
    ):
        table = Table(title=title)
        for heading in HEADINGS:
            table.add_column(heading, justify="left" if heading == "kernel" else "right")
        for row in rows:
            table.add_row(*row)
        Console(width=180).print(table)
        if "--write" in sys.argv[1:]:
            pages.put("codegen.md", mark, pages.markdown(HEADINGS, rows))


def products() -> Iterator[list[str]]:
    """tkgen's own choice and Triton's for some block shapes, then named schedules."""
    from triton_gemm import compile_gemm

    with tempfile.TemporaryDirectory() as folder:
        for (rows, cols, step), waves in SHAPES:
            ours = built((rows, cols, step), waves, Path(folder))
            yield _ours(f"{rows}x{cols}x{step}, {waves} waves", ours)
            peer = compile_gemm("gfx942", (rows, cols, step), waves)
            yield figures(f"Triton {rows}x{cols}x{step}, {waves} warps", peer.asm, _allotted(peer.asm))
    for name in ("ping_pong", "ping_pong_wide"):
        yield _ours(name, tkgen.load(LOW_PRECISION.parent / f"{name}.tk").build())


def low_precision_kernel(name: str, target: str) -> Build:
    """A spec of that folder; after a comma may stand how it is changed."""
    name, _, changed = name.partition(", ")
    text = (LOW_PRECISION / f"{name}.tk").read_text(encoding="utf-8")
    return tkgen.load(text.replace("] interleaved", "]") if changed else text, target=target).check().build().check()


def low_precision() -> Iterator[list[str]]:
    """The loops of small floats and integers; an MFMA that is deeper than 16 counts as several."""
    from triton_gemm import compile_gemm

    for name, target, block, peer in (
        ("fp8", "gfx942", (256, 256, 128), "fp8e4b8"),
        ("fp8_direct", "gfx950", (256, 256, 128), "fp8e4nv"),
        ("mxfp8", "gfx950", (256, 256, 128), ""),
        ("mxfp4", "gfx950", (256, 256, 256), ""),
        ("mxfp6", "gfx950", (256, 128, 256), ""),
        ("i8", "gfx942", (128, 128, 64), "i8"),
        ("i8", "gfx950", (128, 128, 64), "i8"),
        ("w8", "gfx942", (128, 128, 128), ""),
        ("w8", "gfx950", (128, 128, 128), ""),
        ("w4", "gfx942", (128, 128, 128), ""),
        ("w4, not interleaved", "gfx942", (128, 128, 128), ""),
        ("w4", "gfx950", (128, 128, 128), ""),
        ("w4, not interleaved", "gfx950", (128, 128, 128), ""),
    ):
        size = " x ".join(map(str, block))
        yield _ours(f"{name}, {size}, {target}", low_precision_kernel(name, target))
        if peer:
            theirs = compile_gemm(target, block, 8, dtype=peer)
            yield figures(f"Triton {peer}, {size}, {target}", theirs.asm, _allotted(theirs.asm))


def _ours(name: str, build: Build) -> list[str]:
    r = build.resources
    return figures(f"tkgen {name}", build.asm, (r.vgpr, r.agpr, r.vgpr_spills))


def _allotted(asm: str) -> tuple[int, int, int]:
    """VGPRs, AGPRs and spilled registers that the metadata of a code object states."""
    count = {k: int(v) for k, v in re.findall(r"\.(vgpr_count|agpr_count|vgpr_spill_count):\s+(\d+)", asm)}
    return count["vgpr_count"], count.get("agpr_count", 0), count.get("vgpr_spill_count", 0)


if __name__ == "__main__":
    main()
