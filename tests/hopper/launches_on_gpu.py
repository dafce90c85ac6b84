"""Launches of operators on a Hopper GPU: views without a copy, streams, threads, CUDA graphs, compiled code.

    python3 tests/hopper/launches_on_gpu.py

prints a line for each, `WRONG` before one whose numbers are not torch's.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tkgen import ops

MOST = 0.01  # of the norm of what torch makes in f64


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda").bfloat16()


def deviation(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True)


def allocated(call: Callable[[], Tensor]) -> tuple[Tensor, int]:
    """The result, and the most bytes that a call took at once."""
    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = call()
    return found, torch.cuda.max_memory_allocated() - before


def of_views() -> dict[str, float]:
    """Heads after the length, heads of keys shared, parts of wider rows; nothing but outputs is allocated."""
    found = {}
    for shared in (4, 2, 1):
        qkv = normal(2, 300, 3, 4, 128)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
        k, v = k[:, :shared], v[:, :shared]
        o, most = allocated(lambda q=q, k=k, v=v: ops.attention(q, k, v))  # type: ignore[misc]
        found[f"attention of views, {shared} heads of keys"] = deviation(o, attended(q, k, v))
        assert most < 1.5 * o.nbytes, f"{most} bytes for an output of {o.nbytes}"
    x, w = normal(512, 3, 256)[:, 1], normal(384, 512)[:, 128:384]
    y, most = allocated(lambda: ops.linear(x, w))
    found["linear of parts of wider rows"] = deviation(y, F.linear(x.double(), w.double()))
    assert most < 1.5 * y.nbytes, f"{most} bytes for an output of {y.nbytes}"
    odd, repeated = normal(512, 257)[:, 1:], normal(1, 256).expand(512, 256)
    for name, view in (("columns first", normal(256, 512).T), ("an odd offset", odd), ("one row", repeated)):
        found[f"linear of {name}"] = deviation(ops.linear(view, w), F.linear(view.double(), w.double()))
    for name, view in (("columns first", normal(256, 512).T), ("an odd offset", odd), ("one row", repeated)):
        weight = normal(256)
        exact = F.rms_norm(view.double(), (256,), weight.double(), 1e-6)
        found[f"rmsnorm of {name}"] = deviation(ops.rmsnorm(view, weight), exact)
    return found


def on_a_stream() -> float:
    """After a long kernel on its own stream."""
    stream = torch.cuda.Stream()
    x, w = normal(512, 256), normal(256)
    with torch.cuda.stream(stream):
        slow = torch.randn(4096, 4096, device="cuda")
        for _ in range(10):
            slow = slow @ slow * 1e-2
        late = (x.float() + 0 * slow[:512, :256].nan_to_num()).bfloat16()
        found = ops.rmsnorm(late, w)
    stream.synchronize()
    return deviation(found, F.rms_norm(x.double(), (256,), w.double(), 1e-6))


def in_threads() -> float:
    """Four threads, each with inputs of its own, of one signature."""
    w, worst = normal(256, 256), [0.0] * 4

    def compute(n: int) -> None:
        for _ in range(50):
            x = normal(64, 256)
            worst[n] = max(worst[n], deviation(ops.linear(x, w), F.linear(x.double(), w.double())))

    threads = [threading.Thread(target=compute, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(worst)


def in_a_graph() -> float:
    """Captured once, replayed on other numbers."""
    x, w = normal(128, 256), normal(256, 256)
    ops.linear(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = ops.linear(ops.rmsnorm(x, w[0].contiguous()), w)
    x.copy_(normal(128, 256))
    graph.replay()
    norm = F.rms_norm(x.double(), (256,), w[0].double(), 1e-6).bfloat16().double()
    return deviation(found, F.linear(norm, w.double()))


def compiled() -> float:
    """By inductor, in a CUDA graph where torch makes one, of views."""
    w = normal(256, 256)

    def attend(x: Tensor) -> Tensor:
        heads = ops.linear(x, w).reshape(2, 64, 4, 64).transpose(1, 2)
        return ops.attention(heads, heads, heads).transpose(1, 2).reshape(128, 256) + x

    worst = 0.0
    for mode in (None, "reduce-overhead"):
        function = torch.compile(attend, fullgraph=True, mode=mode)
        for _ in range(3):
            x = normal(128, 256)
            heads = F.linear(x.double(), w.double()).bfloat16().reshape(2, 64, 4, 64).transpose(1, 2)
            exact = attended(heads, heads, heads).transpose(1, 2).reshape(128, 256) + x.double()
            worst = max(worst, deviation(function(x), exact))
    return worst


def main() -> int:
    """The exit code: whether all is as it should be."""
    every: dict[str, float] = of_views()
    for case in (on_a_stream, in_threads, in_a_graph, compiled):
        every[case.__name__.replace("_", " ")] = case()
    for name, found in every.items():
        print(f"{'' if found <= MOST else 'WRONG '}{name}: {found:.5f}")
    return int(not max(every.values()) <= MOST)


if __name__ == "__main__":
    sys.exit(main())
