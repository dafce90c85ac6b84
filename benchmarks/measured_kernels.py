"""Kernels of the shapes whose speed has been measured, ready to be predicted, the measurements, and made-up extremes.

`EIGHT_CLUSTERS`: HipKittens' bf16 GEMM, C = A Bt, M = N = K, TFLOP/s on an MI325X (HazyResearch/HipKittens, branch
cdna3, analysis/bf16_gemm/mi325x: blocks of 128 x 128 at 1024 and 2048, of 256 x 256 above). `ELEMENT_READS`: a first
hand-written kernel at 8192, by K-step, as its users measured it. `MI355X`: HipKittens' bf16 GEMM there (branch main,
analysis/bf16_gemm/mi350x/mi355x_bf16_gemm.json), in blocks of 128 x 128 at 1024 and 2048, of 256 x 256 above. Our
kernels have their shape and schedule and none of their text.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch

from tkgen.api import load
from tkgen.emulate import Arg, Buffer, Scalar, Struct
from tkgen.predict import Prediction, Workload, predict, predict_workload
from tkgen.remap import RemapCall, compose
from tkgen.targets import load_target
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.compile import assemble_commands, compile_device, run_step
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

KERNELS = Path(__file__).parent.parent / "tests" / "predict" / "kernels"
DEVICE = "MI325X"
EIGHT_CLUSTERS = {1024: 60, 2048: 298, 4096: 714, 8192: 749, 16384: 714}
ELEMENT_READS = {64: 140, 16: 60}
MI355X = {1024: 139, 2048: 665, 4096: 1413, 8192: 1610, 16384: 1571}


@cache
def assembled(name: str) -> bytes:
    """The code object of `kernels/NAME.s`."""
    target = load_target("gfx942")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "out.s").write_text((KERNELS / f"{name}.s").read_text())
        for command in assemble_commands(find_compiler(target), target):
            run_step(command, work, 60, name, None)
        return (work / "out.hsaco").read_bytes()


@cache
def compiled(name: str, **values: int) -> bytes:
    """The code object of `kernels/NAME.cpp` with its parameters set."""
    target = load_target("gfx942")
    text = "".join(f"#define {k} {v}\n" for k, v in values.items()) + (KERNELS / f"{name}.cpp").read_text()
    result = compile_device(text, target, find_compiler(target), source_name=f"{name}.cpp", cache=default_cache())
    assert result.hsaco is not None
    return result.hsaco


def eight_clusters(size: int) -> Workload:
    """The eight-cluster kernel at M = N = K = size, in the block shape that was measured at that size."""
    block = 128 if size <= 2048 else 256

    def arguments() -> Sequence[Arg]:
        tensors = [(zeros(size, np.uint16), Scalar("u64", size), Scalar("u64", size)) for _ in range(3)]
        return [Struct([member for tensor in tensors for member in tensor] + [Scalar("u64", 0)])]

    order = [RemapCall("xcd", {"n": 8, "chunk": 16}), RemapCall("group", {"rows": 4})]
    code = assembled(f"eight_clusters_{block}")
    return workload("eight_clusters", code, size, (block, block, 64), 8, block * 64 * 4, 2, order, arguments)


def element_reads(step: int, size: int = 8192) -> Workload:
    """The element-wise kernel with K-steps of `step`. It asks for 32 KiB of LDS whatever it uses."""

    def arguments() -> Sequence[Arg]:
        return [zeros(size, np.uint16), zeros(size, np.uint16), zeros(size, np.float32)]

    code = compiled("element_reads", SIZE=size, STEP=step)
    return workload("element_reads", code, size, (64, 64, step), 4, 32768, 4, [], arguments)


def bottleneck(kind: int, size: int = 8192) -> Workload:
    """A kernel made to lose its time to the issue of other instructions (0) or to barriers (1). Measured nowhere."""

    def arguments() -> Sequence[Arg]:
        return [zeros(size, np.uint16), zeros(size, np.uint16), zeros(size, np.float32)]

    code = compiled("bottleneck", SIZE=size, BOTTLENECK=kind)
    return workload("bottleneck", code, size, (64, 64, 16), 4, 32768, 4, [], arguments)


def zeros(size: int, kind: type) -> Buffer:
    return Buffer(torch.from_numpy(np.zeros((size, size), kind)))


def workload(
    name: str,
    hsaco: bytes,
    size: int,
    block: tuple[int, int, int],
    waves: int,
    lds: int,
    output_bytes: int,
    order: Sequence[RemapCall],
    arguments: object,
) -> Workload:
    """A square bf16 product by `hsaco`, whose blocks are dealt in `order`."""
    (resources,) = read_resources(hsaco).values()
    assert resources.clean
    rows, cols = size // block[0], size // block[1]
    return Workload(
        name=name,
        hsaco=hsaco,
        kernel=resources.kernel,
        waves=waves,
        blocks=rows * cols,
        dynamic_lds=lds,
        blocks_per_cu=load_target("gfx942").occupancy(resources.vgpr, lds, waves, resources.agpr).blocks_per_cu,
        sizes=(("M", size), ("N", size), ("K", size)),
        m=size,
        n=size,
        k=size,
        block=block,
        dtype="bf16",
        left_bits=16,
        right_bits=16,
        output_bytes=output_bytes,
        pieces=[(row, col, 0) for row, col in compose(order).order(rows, cols)],
        piece_steps=size // block[2],
        repeats=1,
        zeroed_bytes=0,
        arguments=arguments,  # type: ignore[arg-type]
    )


@cache
def predicted(name: str, value: int) -> Prediction:
    """The prediction for `eight_clusters` or `mi355x` at a size, or `element_reads` with a K-step."""
    if name == "mi355x":
        spec = KERNELS / "small_blocks.tk" if value <= 2048 else KERNELS.parents[2] / "specs" / "hk_ping_pong.tk"
        build = load(spec, {"M": None, "N": None, "K": None}).build()
        return predict(build, {"M": value, "N": value, "K": value}, "MI355X", what_if=False)
    made = {"eight_clusters": eight_clusters, "element_reads": element_reads}[name](value)
    return predict_workload(made, load_target("gfx942"), DEVICE, what_if=False)
