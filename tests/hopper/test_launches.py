"""Launches on a Hopper GPU through a driver that records them: what is passed, prepared once, copied."""

from __future__ import annotations

import ctypes
import gc
import math
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from nvcc import compiles
from torch import Tensor

import tkgen
from tkgen import ops
from tkgen.backends.hopper import prepared
from tkgen.backends.hopper.launch import GLOBAL_BYTES, MAP_BYTES
from tkgen.toolchain.compiler import ToolchainError

pytestmark = compiles
SPECS = Path(__file__).parents[2] / "specs"


@dataclass
class Passed:
    """A tensor as a launch passed it: its address, sizes and map, and so many bytes of its memory at that time."""

    address: int
    sizes: tuple[int, ...]  # rows, columns, depth, batch
    map: bytes
    memory: bytes


@dataclass
class Recorded:
    """A launch."""

    blocks: int
    threads: int
    stream: int
    tensors: list[Passed]
    scalars: bytes


@dataclass
class Recorder:
    """A driver that launches nothing; a map is the address that it is for, and the strides."""

    count: int = 0  # tensors of the kernels
    launches: list[Recorded] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    functions: int = 0
    replaced: int = 0
    entries: int = 0
    answers: list[int] = field(default_factory=list)  # of the next launches; success after them
    seconds: float = 0.0

    def function(self, build: Any, device: torch.device) -> int:
        self.functions += 1
        spec = build.spec
        self.count = len(spec.program.arguments) + len(spec.boxes.ended if spec.boxes else ())
        return 7

    def map(self, layout: Any, tensor: Any, data: Tensor, end: bool) -> bytes:
        self.maps.append(tensor.name)
        return struct.pack("<Q4q", data.data_ptr(), *(*data.stride(), 0, 0, 0)[:4]).ljust(MAP_BYTES, b"\0")

    def replace(self, place: ctypes.c_void_p, address: ctypes.c_void_p) -> int:
        self.replaced += 1
        assert place.value is not None and place.value % 64 == 0 and address.value is not None
        ctypes.memmove(place.value, struct.pack("<Q", address.value), 8)
        return 0

    def launch(self, launched: Any, function: Any, pointers: Any, _: Any) -> int:
        time.sleep(self.seconds)
        config = prepared.LaunchConfig.from_address(launched.value)
        blocks, threads, stream, pointers = config.grid[0], config.block[0], config.stream, pointers.value
        assert function.value == 7 and {*config.grid[1:], *config.block[1:]} == {1}
        (argument,) = struct.unpack("<Q", ctypes.string_at(pointers, 8))
        whole = ctypes.string_at(argument, self.count * GLOBAL_BYTES + 16)
        tensors = []
        for n in range(self.count):
            part = whole[n * GLOBAL_BYTES : (n + 1) * GLOBAL_BYTES]
            address, *sizes = struct.unpack_from("<Qiiii", part, MAP_BYTES)
            tensors.append(Passed(address, tuple(sizes), part[:MAP_BYTES], ctypes.string_at(address, 64)))
        self.launches.append(Recorded(blocks, threads, stream or 0, tensors, whole[self.count * GLOBAL_BYTES :]))
        return self.answers.pop(0) if self.answers else 0

    def stream(self, index: int) -> int:
        return 42

    def current(self) -> int:
        return 0

    def enter(self, device: torch.device) -> None:
        self.entries += 1


@pytest.fixture
def driver() -> Iterator[Recorder]:
    recorder = Recorder()
    with ops.emulated("sm_90a"), prepared.simulated(recorder):
        yield recorder


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape).bfloat16()


def memory(t: Tensor) -> bytes:
    return bytes(t.contiguous().view(torch.uint8).flatten()[:64].tolist())


def test_a_launch_passes_addresses_sizes_scalars_and_the_stream(driver: Recorder) -> None:
    x, w = normal(6, 256), normal(256)
    y = ops.rmsnorm(x, w, 0.25)
    (launch,) = driver.launches
    assert (launch.blocks, launch.threads, launch.stream) == (2, 128, 42)
    assert [t.address for t in launch.tensors[:3]] == [x.data_ptr(), w.data_ptr(), y.data_ptr()]
    assert [t.sizes for t in launch.tensors] == [(6, 256, 1, 1), (1, 256, 1, 1), (6, 256, 1, 1), (1, 6, 1, 1)]
    assert struct.unpack_from("<f", launch.scalars) == (0.25,)
    ops.rmsnorm(x, w, 0.5)
    assert struct.unpack_from("<f", driver.launches[1].scalars) == (0.5,)


def test_outputs_of_the_caller_are_passed_as_they_are(driver: Recorder) -> None:
    norm, x, w = tkgen.jit(ops.kernels.SPECS / "rmsnorm.tk"), normal(6, 256), normal(256)
    y, r = torch.empty(6, 256, dtype=torch.bfloat16), torch.empty(6)
    assert norm(x, w, 0.25, out=(y, r))[0] is y
    (launch,) = driver.launches
    assert [t.address for t in launch.tensors] == [t.data_ptr() for t in (x, w, y, r)]
    assert struct.unpack_from("<f", launch.scalars) == (0.25,)
    partly = normal(2 * 6 * 256)[1:][: 6 * 256].view(6, 256)  # begins where the kernel cannot write
    norm(x, w, 0.25, out=(partly, r))
    assert driver.launches[1].tensors[2].address != partly.data_ptr()


def test_a_signature_is_prepared_once(driver: Recorder) -> None:
    """Later calls write addresses into a map only where they are others."""
    w = normal(64, 64)
    for n in range(4):
        x = normal(32, 64)
        y = ops.linear(x, w)
        # the last ones are those of the last tiles: X ends within one
        passed, given = driver.launches[n].tensors[:-1], (x, w, y, x)
        assert [t.address for t in passed] == [t.data_ptr() for t in given]
        assert [struct.unpack_from("<Q", t.map)[0] for t in passed] == [t.data_ptr() for t in given]
    assert driver.maps == ["X", "W", "Y", "X", "W"] and driver.functions == 1
    before = driver.replaced
    assert before <= 13  # of X, twice, and Y each time, of W once
    ops.linear(normal(48, 64), w)
    assert len(driver.maps) == 10 and driver.launches[-1].tensors[0].sizes == (48, 64, 1, 1)


def test_what_is_not_aligned_is_copied(driver: Recorder) -> None:
    w = normal(256)
    x = torch.cat([normal(1), normal(8, 256).flatten()])[1:].view(8, 256)
    for given in (x, normal(8, 256), x):
        ops.rmsnorm(given, w)
        passed = driver.launches[-1].tensors[0]
        assert passed.address % 16 == 0 and passed.memory == memory(given)
        assert (passed.address == given.data_ptr()) == (given.data_ptr() % 16 == 0)


def row_strides(passed: Passed) -> tuple[int, ...]:
    return struct.unpack_from("<4q", passed.map, 8)


def test_strides_that_the_copy_engine_takes_are_passed(driver: Recorder) -> None:
    """Nothing is copied: heads after the length, as models have them, parts of wider rows."""
    qkv = normal(2, 48, 3, 4, 64)
    q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
    ops.attention(q, k[:, :2], v[:, :2])
    passed = driver.launches[-1].tensors
    assert [t.address for t in passed[:3]] == [q.data_ptr(), k.data_ptr(), v.data_ptr()]
    assert row_strides(passed[0]) == q.stride() and row_strides(passed[1]) == k.stride()
    assert passed[1].sizes == (48, 64, 2, 2)
    x, w = normal(2, 24, 3, 64)[:, :, 1], normal(80, 96)[:, 16:80]
    ops.linear(x, w)
    passed = driver.launches[-1].tensors
    assert [t.address for t in passed[:2]] == [x.data_ptr(), w.data_ptr()]
    assert row_strides(passed[0])[:2] == (192, 1) and row_strides(passed[1])[:2] == (96, 1)


def test_strides_that_the_copy_engine_does_not_take_are_copied(driver: Recorder) -> None:
    w = normal(64, 64)
    wide = normal(32, 76)
    for x in (normal(64, 32).T, normal(1, 64).expand(32, 64), wide[:, 8:72], normal(32, 128)[:, ::2]):
        ops.linear(x, w)
        passed = driver.launches[-1].tensors[0]
        assert passed.address != x.data_ptr() and passed.memory == memory(x)
        assert row_strides(passed)[:2] == (64, 1)
    moved = normal(32, 128)[:, 4:68]  # at no multiple of 16 bytes: the copy has the strides of its map
    for x in (normal(32, 128)[:, 64:], moved, normal(32, 128)[:, :64]):
        ops.linear(x, w)
        passed = driver.launches[-1].tensors[0]
        assert row_strides(passed)[:2] == (128, 1) and passed.memory == memory(x)
        assert (passed.address == x.data_ptr()) == (x is not moved)


def test_columns_first_are_copied(driver: Recorder) -> None:
    x, w = normal(256, 8).T, normal(256)
    ops.rmsnorm(x, w)
    assert driver.launches[0].tensors[0].memory == memory(x)


def test_outputs_that_blocks_add_to_begin_at_zero(driver: Recorder) -> None:
    build = tkgen.load(SPECS / "hopper/h100_split_k.tk", {"M": 128, "N": 256, "K": 4096}).check().build()
    for _ in range(3):
        out = tkgen.run(build, normal(128, 4096), normal(256, 4096))
        assert isinstance(out, Tensor)
        assert driver.launches[-1].tensors[-1].address == out.data_ptr()
        assert driver.launches[-1].tensors[-1].memory == bytes(64)
        out.fill_(1)  # memory that the next one may get


def test_what_is_read_and_written_begins_as_a_copy(driver: Recorder) -> None:
    build = tkgen.load(SPECS / "hopper/h100_rmsnorm.tk", {"TOKENS": 8, "D": 256}).check().build()
    operator = tkgen.operator(build, "recorded_rmsnorm")
    given = {"X": normal(8, 256), "R": normal(256, 8).T, "W": normal(256)}
    results = operator(*given.values())
    names = [t.name for t in build.spec.program.arguments]
    passed = driver.launches[0].tensors[names.index("R")]
    written = results[[t.name for t in build.spec.program.outputs].index("R")]
    assert passed.address == written.data_ptr() != given["R"].data_ptr()
    assert passed.memory == memory(given["R"]) and written.is_contiguous()


def test_a_thread_that_has_not_used_the_gpu_enters_its_context(driver: Recorder) -> None:
    x, w = normal(8, 256), normal(256)
    driver.answers = [prepared.NO_CONTEXT]
    ops.rmsnorm(x, w)
    assert driver.entries == 1 and len(driver.launches) == 2
    driver.answers = [700]
    with pytest.raises(ToolchainError, match="launching rmsnorm: error 700"):
        ops.rmsnorm(x, w)
    ops.rmsnorm(x, w)


def test_threads_do_not_mix_their_arguments(driver: Recorder) -> None:
    driver.seconds = 0.01
    w, given = normal(256), [normal(8, 256) for _ in range(4)]
    ops.rmsnorm(given[0], w)
    results: dict[int, Tensor] = {}

    def compute(n: int) -> None:
        for _ in range(5):
            results[given[n].data_ptr()] = ops.rmsnorm(given[n], w)

    threads = [threading.Thread(target=compute, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.launches) == 21
    for launch in driver.launches:
        x = next(t for t in given if t.data_ptr() == launch.tensors[0].address)
        assert launch.tensors[0].memory == memory(x)
    last = {launch.tensors[0].address: launch.tensors[2].address for launch in driver.launches}
    assert last == {x: y.data_ptr() for x, y in results.items()}


def test_gradients_are_launched_for_what_wants_one(driver: Recorder) -> None:
    x, w = normal(16, 64).requires_grad_(), normal(64, 64)
    ops.linear(x, w).sum().backward()
    assert len(driver.launches) == 2 and x.grad is not None and x.grad.shape == (16, 64)
    ops.linear(x.detach(), w.requires_grad_()).sum().backward()
    assert len(driver.launches) == 4 and w.grad is not None
    with torch.no_grad():
        assert not ops.linear(x, w).requires_grad


def test_what_is_prepared_ends_with_its_build(driver: Recorder) -> None:
    build = tkgen.load(SPECS / "hopper/h100_rmsnorm.tk", {"TOKENS": 8, "D": 512}).check().build()
    tkgen.run(build, normal(8, 512), normal(8, 512), normal(512))
    gone = weakref.ref(build)
    del build
    gc.collect()
    assert gone() is None


def test_nothing_is_launched_for_nothing(driver: Recorder) -> None:
    assert ops.linear(normal(0, 64), normal(64, 64)).shape == (0, 64)
    assert not driver.launches and math.prod(ops.rmsnorm(normal(2, 0, 64), normal(64)).shape) == 0
