"""The stream of blocks through a compute unit, and what it predicts of kernels of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from row_kernels import elementwise, layernorm, made, rmsnorm, softmax, transpose

from tkgen.emulate import Arg, Buffer, Scalar, Struct
from tkgen.ir.equations import AxisKind, Kernel
from tkgen.ir.tensors import Tensor
from tkgen.predict import Prediction
from tkgen.predict.device import Device
from tkgen.predict.stream import Instruction, Unit, WaveStream
from tkgen.predict.throughput import StreamedUnit, ThroughputModel, Transfer
from tkgen.predict.timing import Machine, Memory
from tkgen.targets import load_target

TARGET = load_target("gfx942")


def predicted(kernel: Kernel, waves: int, scalars: Sequence[float] = (), product: str = "MI325X") -> Prediction:
    layout, _, hsaco, resources = made(kernel, waves, TARGET.name)
    blocks = prod(-(-(a.dim.size or 1) // (a.tile or 1)) for a in kernel.axes if a.kind is AxisKind.PARALLEL)

    def arguments() -> list[Arg]:
        buffers = [Buffer(np.zeros(bytes_of(t), np.uint8), t.name) for t in kernel.tensors]
        return [Struct([*buffers, *(Scalar("f32", s) for s in scalars), Scalar("u64", 0)])]

    occupancy = TARGET.occupancy(resources.vgpr, resources.lds_static_bytes, layout.waves, resources.agpr)
    read, written = (sum(map(bytes_of, tensors)) for tensors in (kernel.inputs, kernel.outputs))
    work = Transfer(
        name=kernel.name, hsaco=hsaco, kernel=resources.kernel, waves=layout.waves, blocks=blocks,
        blocks_per_cu=occupancy.blocks_per_cu, sizes=(), arguments=arguments, read_bytes=read, written_bytes=written,
    )  # fmt: skip
    return ThroughputModel(work, Device.of(TARGET, product)).prediction()


def bytes_of(tensor: Tensor) -> int:
    return prod(d.size or 1 for d in tensor.dims) * tensor.dtype.bytes


def unit(streams: list[WaveStream], count: int, resident: int = 2, needed: float = 64.0) -> StreamedUnit:
    made = StreamedUnit(streams, resident, Machine.of(TARGET, Memory(1000, 8, 8)), count, needed, 64.0)
    made.run()
    return made


LOAD = Instruction(Unit.VMEM, 16, bytes=1024, pieces=16)
STORE = Instruction(Unit.VMEM, 16, bytes=1024, pieces=16, is_store=True)
WAIT = Instruction(Unit.WAIT, vector=0)
END = Instruction(Unit.END)


def test_all_blocks_pass_through_the_unit_and_share_the_memory() -> None:
    copy = WaveStream((LOAD, WAIT, STORE, END), (), 0, ())
    for count in (1, 2, 7, 160):
        end = unit([copy], count, resident=16, needed=2048.0).end
        least = count * 2048 / 8
        assert end >= least
    assert end < 1.4 * least  # of 160 blocks, 16 at a time: their latency is hidden


def test_a_vector_unit_is_busy_for_all_of_an_instruction() -> None:
    slow = WaveStream((Instruction(Unit.VALU, 16),) * 50 + (END,), (), 0, ())
    assert unit([slow] * 4, 8, resident=8).end >= 8 * 50 * 16


@pytest.mark.parametrize(
    "length", [1, 100, 16384, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 64, 1000, 1024, 4095, 4096, 8192))]
)
def test_softmax_comes_near_a_copy_at_every_length(length: int) -> None:
    by = 4 if length >= 1000 else 1 << (8192 // length).bit_length() - 1
    assert predicted(softmax(2**28 // length, length, by), 4).share_of_copy > 0.85


LONG = [
    *[(name, length, 16) for name in ("softmax", "rmsnorm") for length in (8193, 10000, 12289, 16383)],
    *[("layernorm", length, waves) for length, waves in ((8193, 8), (10000, 8), (12289, 16))],
    *[("rmsnorm", length, 4) for length in (5000, 6001, 7000)],  # these spilled, as what was widened was kept
    *[(name, 16384, waves) for name in ("softmax", "layernorm", "rmsnorm") for waves in (4, 16)],
]
FEW = (("layernorm", 16384, 16), ("rmsnorm", 16383, 16))


@pytest.mark.parametrize(
    ("family", "length", "waves"),
    [pytest.param(*case, marks=[] if case in FEW else pytest.mark.slow, id="-".join(map(str, case))) for case in LONG],
)
def test_long_rows_leave_room_for_a_second_block(family: str, length: int, waves: int) -> None:
    """Memory works for one block while the waves of the other meet; and no register is spilled."""
    kernel = {"softmax": softmax, "layernorm": layernorm, "rmsnorm": rmsnorm}[family](2**28 // length, length, 4)
    _, _, _, resources = made(kernel, waves, TARGET.name)
    assert resources.clean
    assert TARGET.occupancy(resources.vgpr, resources.lds_static_bytes, waves, resources.agpr).blocks_per_cu >= 2
    assert predicted(kernel, waves, [1e-5] * len(kernel.scalars)).share_of_copy > 0.85


@pytest.mark.slow
def test_weights_of_long_odd_rows_leave_room_for_one_block_alone() -> None:
    """They are held element by element; docs/limits.md says what that costs."""
    kernel = layernorm(2**28 // 16383, 16383, 4)
    assert 0.7 < predicted(kernel, 16).share_of_copy < 0.85


def test_the_other_families_come_near_a_copy() -> None:
    for kernel, waves, scalars in (
        (rmsnorm(32768, 4096, 4), 4, [1e-5]),
        (layernorm(32768, 4096, 4), 4, []),
        (elementwise(8192, 8192, (8, 512)), 4, []),
        (transpose(8192, 8192, (64, 64)), 1, []),
    ):
        p = predicted(kernel, waves, scalars)
        assert 0.85 < p.share_of_copy < 1, kernel.name
        assert p.limiter == "HBM"
        assert p.gbps == pytest.approx(p.share_of_copy * Device.of(TARGET, "MI325X").copy_rate / 1e9)


def test_a_small_launch_is_mostly_launch() -> None:
    p = predicted(softmax(64, 64, 16), 1)
    assert p.launch_seconds / p.seconds > 0.5
    assert p.share_of_copy < 0.01
