"""ThunderKittens' own product for the H100, of a checkout of it, for `benchmarks/hopper.py --thunderkittens DIR`.

The kernel is the one of its `kernels/gemm/bf16_h100`, with the block that its own benchmark chooses for square sizes
(128 x 256 x 64, four stages, 132 blocks that stay, groups of eight rows of blocks) and the flags of its makefile. What
is ours is a wrapper that makes its arguments once and launches it on a stream. It takes B[K, N], whole blocks alone.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tkgen.backends.hopper.toolchain import find_nvcc

KERNEL = Path("kernels/gemm/bf16_h100/bf16_h100_gemm.cu")
BLOCK = (128, 256, 64)

WRAPPER = """
#define main benchmark_main
#include "{kernel}"
#undef main

using chosen = matmul_template<2, 4, 8>;
using arguments = typename chosen::layout::globals;
using tensor = typename chosen::layout::global_layout;

extern "C" arguments *product_make(bf16 *a, bf16 *b, bf16 *c, size_t m, size_t n, size_t k) {{
    cudaFuncSetAttribute(kittens::prototype::lcf::kernel<chosen>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         MAX_SHARED_MEMORY - 1024);
    return new arguments{{tensor{{a, nullptr, nullptr, m, k}}, tensor{{b, nullptr, nullptr, k, n}},
                         tensor{{c, nullptr, nullptr, m, n}}}};
}}

extern "C" int product_launch(const arguments *all, size_t m, size_t n, size_t k, cudaStream_t stream) {{
    const dim3 block(kittens::prototype::detail::NUM_THREADS_v<chosen>);
    kittens::prototype::lcf::kernel<chosen>
        <<<chosen::grid(m, n, k), block, MAX_SHARED_MEMORY - 1024, stream>>>(*all);
    return cudaGetLastError();
}}
"""


def fits(shape: tuple[int, int, int], layout: str) -> bool:
    """Return True if its kernel takes this product."""
    return layout == "NN" and all(size % block == 0 for size, block in zip(shape, BLOCK, strict=True))


def starter(checkout: Path) -> Callable[[Any, Any, Any], Callable[[], None]]:
    """A function that prepares a launch of its kernel on tensors; compiles the kernel.

    Raises:
        SystemExit: it is no checkout of ThunderKittens 2.0, or the kernel does not compile.
    """
    library = _compiled(checkout)
    library.product_make.restype = ctypes.c_void_p

    def start(a: Any, b: Any, c: Any) -> Callable[[], None]:
        import torch

        m, k = a.shape
        sizes = [ctypes.c_size_t(size) for size in (m, b.shape[1], k)]
        made = ctypes.c_void_p(library.product_make(*(ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)), *sizes))

        def launch() -> None:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            if status := library.product_launch(made, *sizes, stream):
                raise SystemExit(f"ThunderKittens' kernel cannot be launched: error {status} of CUDA")

        return launch

    return start


def _compiled(checkout: Path) -> ctypes.CDLL:
    checkout = checkout.resolve()
    kernel = checkout / KERNEL
    if not kernel.is_file():
        raise SystemExit(f"{checkout} is no checkout of ThunderKittens: it has no {KERNEL}")
    folder = Path(tempfile.mkdtemp())
    (folder / "product.cu").write_text(WRAPPER.format(kernel=kernel), encoding="utf-8")
    command = [
        str(find_nvcc().path), "-shared", "-Xcompiler=-fPIC", "-std=c++20", "-O3", "--use_fast_math", "-DNDEBUG",
        "-DKITTENS_HOPPER", "--expt-extended-lambda", "--expt-relaxed-constexpr", "-Xcompiler=-Wno-psabi",
        "-Xcompiler=-fno-strict-aliasing", "-gencode", "arch=compute_90a,code=sm_90a",
        f"-I{checkout / 'include'}", f"-I{checkout / 'prototype'}", "product.cu", "-o", "product.so",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ThunderKittens' kernel does not compile:\n{done.stderr[-2000:]}")
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)  # the driver, whose names the kernel's host code has
    return ctypes.CDLL(str(folder / "product.so"))
