"""Host microseconds of a call of each operator, beside torch's: what a launch costs before the GPU does anything.

    python3 benchmarks/launch.py            # on a Hopper GPU
    python3 benchmarks/launch.py --dry      # anywhere with a C compiler: CPU tensors, a driver that does nothing

A GPU also runs a block of a transformer. Calls are queued without waiting for the GPU, whose kernels here take less
time than their launches. `--profile NAME` prints where Python spends the time of one operator.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import ctypes
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import tkgen
from tkgen import ops
from tkgen.backends.hopper import launch as hopper
from tkgen.backends.hopper import prepared

CALLS, BATCHES = 200, 25
ROOT = Path(__file__).parents[1]
STUB = """
int launch(const void *config, void *f, void **arguments, void **extra) { return 0; }
int replace(void *map, void *address) { return 0; }
"""


class Nothing:
    """A driver whose calls do nothing."""

    def __init__(self, folder: Path) -> None:
        (folder / "stub.c").write_text(STUB)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "stub.so", folder / "stub.c"], check=True)
        library = ctypes.CDLL(str(folder / "stub.so"))
        self.launch, self.replace = library.launch, library.replace
        self.stream, self.current = int, int  # 0 is both

    def function(self, build: Any, device: torch.device) -> int:
        return 1

    def map(self, layout: Any, tensor: Any, data: Tensor, end: bool) -> bytes:
        return bytes(hopper.MAP_BYTES)

    def enter(self, device: torch.device) -> None:
        return None


@contextlib.contextmanager
def dry() -> Iterator[None]:
    """Within it, CPU tensors are launched on."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ops.emulated("sm_90a"),
        prepared.simulated(Nothing(Path(folder))),
    ):
        yield


# ---------------------------------------------------------------- the operators


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def gated(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


Call = Callable[..., Any]


def operators(device: str) -> dict[str, tuple[Call, Call | None, tuple[Tensor, ...]]]:
    """Ours, torch's where there is one, the inputs: of 16 rows of 256."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).bfloat16()

    x, w = normal(16, 256), normal(256)
    square, up = normal(256, 256), normal(256, 256)
    q, k, v = (normal(1, 4, 16, 64) for _ in range(3))
    across = [normal(1, 16, 4, 64).transpose(1, 2) for _ in range(3)]
    angles = torch.rand(16, 32, device=device)
    cos, sin = angles.cos(), angles.sin()
    wide = cos.bfloat16(), sin.bfloat16()
    heads = normal(1, 4, 16, 64)
    offsets = torch.tensor([0, 3, 16], dtype=torch.int32, device=device)
    weights = normal(2, 256, 256)
    codes, scale = normal(16, 256).to(torch.float8_e4m3fn), torch.ones(16, device=device)
    rows = codes.new_empty(256, 256), torch.ones(256, device=device)
    return {
        "rmsnorm": (ops.rmsnorm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), (x, w)),
        "linear": (ops.linear, F.linear, (x, square)),
        "linear, three dimensions": (ops.linear, F.linear, (normal(2, 8, 256), square)),
        "swiglu": (ops.swiglu, gated, (x, square, up)),
        "attention": (ops.attention, F.scaled_dot_product_attention, (q, k, v)),
        "attention of transposed views": (ops.attention, F.scaled_dot_product_attention, tuple(across)),
        "rotary": (lambda x: ops.rotary(x, cos, sin), lambda x: rotated(x, *wide), (heads,)),
        "grouped_linear": (lambda x, w: ops.grouped_linear(x, w, offsets), None, (x, weights)),
        "quantise": (ops.quantise, None, (x,)),
        "scaled_linear": (lambda x, s: ops.scaled_linear(x, rows[0], s, rows[1]), None, (codes, scale)),
    }


def user() -> Call:
    """An operator that a user makes."""
    build = tkgen.load(ROOT / "specs/hopper/h100_rmsnorm.tk", {"TOKENS": 16, "D": 256}).check().build()
    return tkgen.operator(build, "launched_rmsnorm")


class Block:
    """A block of a transformer, forward: heads are views of one projection."""

    def __init__(self, ours: bool, width: int = 4096, heads: int = 32, hidden: int = 11008) -> None:
        def normal(*shape: int) -> Tensor:
            return (torch.randn(*shape, device="cuda") * shape[-1] ** -0.5).bfloat16()

        self.heads, self.ours = heads, ours
        self.qkv, self.out = normal(3 * width, width), normal(width, width)
        self.gate, self.up, self.down = normal(hidden, width), normal(hidden, width), normal(width, hidden)
        self.ones = torch.ones(width, device="cuda").bfloat16()
        angles = torch.rand(2048, width // heads // 2, device="cuda")
        self.tables = angles.cos(), angles.sin()
        self.wide = [t.bfloat16() for t in self.tables]

    def __call__(self, x: Tensor) -> Tensor:
        linear: Call = ops.linear if self.ours else F.linear
        q, k, v = linear(self.norm(x), self.qkv).reshape(*x.shape[:2], 3, self.heads, -1).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        o = self.attend(self.turn(q), self.turn(k), v)
        x = x + linear(o.transpose(1, 2).reshape(x.shape), self.out)
        hidden = (ops.swiglu if self.ours else gated)(self.norm(x), self.gate, self.up)
        return x + linear(hidden, self.down)  # type: ignore[no-any-return]

    def norm(self, x: Tensor) -> Tensor:
        return ops.rmsnorm(x, self.ones) if self.ours else F.rms_norm(x, self.ones.shape, self.ones, 1e-6)

    def turn(self, x: Tensor) -> Tensor:
        return ops.rotary(x, *self.tables) if self.ours else rotated(x, *self.wide)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.ours:
            return ops.attention(q, k, v, causal=True)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def blocks() -> None:
    """Print what a block takes in an eager stream, ours beside torch's and what inductor makes of each."""
    x = torch.randn(1, 2048, 4096, device="cuda").bfloat16()
    for name, block in (("tkgen", Block(ours=True)), ("torch", Block(ours=False))):
        for how, call in (("eager", block), ("compiled", torch.compile(block.__call__))):
            for _ in range(3):
                call(x)
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(20):
                call(x)
            torch.cuda.synchronize()
            print(
                f"a block of 2048 tokens, {name} {how}: {(time.perf_counter() - began) / 20 * 1e6:8.0f} us", flush=True
            )


# ---------------------------------------------------------------- the clock


def microseconds(call: Call, inputs: tuple[Tensor, ...]) -> float:
    """Of the host for a call, the median of batches; without a GPU of this thread's own time, whoever else computes."""
    wait = torch.cuda.synchronize if inputs[0].is_cuda else lambda: None
    clock = time.perf_counter if inputs[0].is_cuda else time.thread_time
    for _ in range(20):
        call(*inputs)
    wait()
    found = []
    for _ in range(BATCHES):
        began = clock()
        for _ in range(CALLS):
            call(*inputs)
        found.append((clock() - began) / CALLS * 1e6)
        wait()
    return statistics.median(found)


def learning(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(t.detach().requires_grad_() for t in inputs)


def table(device: str) -> None:
    """Print a line for each operator: without a gradient, and forward where its inputs want one."""
    print(f"{'host us of a call':32} {'tkgen':>8} {'torch':>8} {'more':>8}   {'keeps':>8} {'torch':>8} {'more':>8}")
    for name, (ours, torchs, inputs) in operators(device).items():
        line = [f"{name:32}"]
        for given in (inputs, learning(inputs) if torchs else None):
            if given is None:
                continue
            own = microseconds(ours, given)
            other = microseconds(torchs, given) if torchs else None
            line.append(f"{own:8.1f}" + ("" if other is None else f" {other:8.1f} {own - other:8.1f}  "))
        print(" ".join(line), flush=True)
    x = torch.randn(16, 256, device=device).bfloat16()
    print(f"{'tkgen.operator, three inputs':32} {microseconds(user(), (x, x, x[0].contiguous())):8.1f}", flush=True)


def profiled(device: str, name: str) -> None:
    """Print where the time of an operator goes, as far as Python knows."""
    ours, _, inputs = operators(device)[name]
    ours(*inputs)
    profile = cProfile.Profile()
    with profile:
        for _ in range(10 * CALLS):
            ours(*inputs)
    pstats.Stats(profile).sort_stats("tottime").print_stats(15)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="without a GPU: a driver that does nothing")
    parser.add_argument("--profile", metavar="NAME", help="profile one operator")
    given = parser.parse_args()
    if not given.dry and not torch.cuda.is_available():
        sys.exit("no GPU here: --dry measures all but the driver's part")
    device = "cpu" if given.dry else "cuda"
    where = "this CPU, with a driver that does nothing" if given.dry else torch.cuda.get_device_name()
    print(f"torch {torch.__version__}, {where}")
    with dry() if given.dry else contextlib.nullcontext():
        if given.profile:
            profiled(device, given.profile)
            return
        table(device)
        if not given.dry:
            blocks()


if __name__ == "__main__":
    main()
