"""Costs and errors of functions and of their cheaper forms, as `docs/functions.md` shows them.

    python benchmarks/function_costs.py gfx942      # instructions of the machine code, counted here
    python benchmarks/function_costs.py sm_90a      # time and largest errors, on the Hopper GPU of this machine

Prints a line of `tkgen/ir/functions/costs.toml` for each function.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tkgen.backends.cdna.kittens import include_dir
from tkgen.ir.functions import CDNA, FAST, FUNCTIONS, HOPPER, Function, helpers
from tkgen.targets import load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler

PAIRS = [name for pair in FAST.items() for name in pair]
TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_f32")
EXPONENT = "1.7"  # of powers
IN_F64 = {
    "tanh": "tanh(x)", "sigmoid": "1 / (1 + exp(-x))", "silu": "x / (1 + exp(-x))",
    "gelu": "0.5 * x * erfc(-x * 0.70710678118654752)", "log2": "log2(x)", "log": "log(x)", "sqrt": "sqrt(x)",
    "gelu_tanh": "x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))",
    "pow": f"exp2({EXPONENT} * log2(x))",
}  # fmt: skip
PROGRAM = """
#include <cmath>
#include <cstdint>
#include <cstdio>
#define CHAINS 8
struct worst { double number, ulps; };
{helpers}
{kernels}
__global__ void time_none(float *out, float c, int rounds) {
    float a[CHAINS];
    for (int i = 0; i < CHAINS; ++i) a[i] = c * (threadIdx.x + i * 37) * 0.001f + 0.3f;
    for (int r = 0; r < rounds; ++r)
        for (int i = 0; i < CHAINS; ++i) a[i] = a[i] + c;
    float s = 0;
    for (int i = 0; i < CHAINS; ++i) s += a[i];
    if (s == 12345.0f) out[threadIdx.x] = s;
}
template<typename K> double milliseconds(K kernel, float *out, int blocks) {
    cudaEvent_t first, last;
    cudaEventCreate(&first), cudaEventCreate(&last);
    float best = 1e9f;
    for (int t = 0; t < 7; ++t) {
        cudaEventRecord(first);
        kernel<<<blocks, 1024>>>(out, 0.25f, 20000);
        cudaEventRecord(last);
        cudaEventSynchronize(last);
        float taken;
        cudaEventElapsedTime(&taken, first, last);
        best = fminf(best, taken);
    }
    return best;
}
int main() {
    int units;
    cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0);
    const int threads = 1024 * 256;
    float *out;
    worst *found, *here = new worst[threads];
    cudaMalloc(&out, 4096);
    cudaMalloc(&found, threads * sizeof(worst));
    const double none = milliseconds(time_none, out, 2 * units);
{calls}
    return cudaGetLastError() != cudaSuccess;
}
"""
KERNELS = """
__global__ void error_{name}(worst *found) {
    worst most{0, 0};
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < 1ull << 32; i += uint64_t(gridDim.x) * blockDim.x) {
        const float given = __uint_as_float(uint32_t(i));
        if (!(fabsf(given) >= 1.17549435e-38f && fabsf(given) < INFINITY)) continue;
        float result;
        {
            const float x = given;
            result = {call};
        }
        const double x = given, exact = {exact};
        if (!(fabs(exact) < 3.4e38)) continue;
        int exponent;
        frexp(fmax(fabs(exact), 1.1754943508222875e-38), &exponent);
        const double off = fabs(result - exact);
        most.number = fmax(most.number, off);
        if (fabs(exact) >= 1.1754943508222875e-38) most.ulps = fmax(most.ulps, ldexp(off, 24 - exponent));
    }
    found[blockIdx.x * blockDim.x + threadIdx.x] = most;
}
__global__ void time_{name}(float *out, float c, int rounds) {
    float a[CHAINS];
    for (int i = 0; i < CHAINS; ++i) a[i] = c * (threadIdx.x + i * 37) * 0.001f + 0.3f;
    for (int r = 0; r < rounds; ++r)
        for (int i = 0; i < CHAINS; ++i) {
            const float x = a[i] + c;
            a[i] = {call};
        }
    float s = 0;
    for (int i = 0; i < CHAINS; ++i) s += a[i];
    if (s == 12345.0f) out[threadIdx.x] = s;
}
"""
CALLS = """
    error_{name}<<<1024, 256>>>(found);
    cudaMemcpy(here, found, threads * sizeof(worst), cudaMemcpyDeviceToHost);
    for (int i = 1; i < threads; ++i) {
        here[0].number = fmax(here[0].number, here[i].number);
        here[0].ulps = fmax(here[0].ulps, here[i].ulps);
    }
    const double additions_{name} = milliseconds(time_{name}, out, 2 * units) / none - 1;
    printf("{name} = { additions = %.3g, number = %.2g, ulps = %.4g }\\n", additions_{name}, here[0].number,
           here[0].ulps);
"""


def instructions(name: str) -> tuple[int, int]:
    """Vector instructions of a function on gfx942, and how many of them are transcendental, which take four times as
    long."""
    target = load_target("gfx942")

    def counted(f: Function | None) -> tuple[int, int]:
        result = f.cpp[CDNA].format("x", "y") if f else "x"
        parts = helpers({f.name}, CDNA) if f else ()
        source = "\n".join([
            '#include "kittens.cuh"', *parts,
            'extern "C" __global__ __launch_bounds__(64) void one(const float *in, float *out) {',
            "    const float x = in[threadIdx.x], y = in[threadIdx.x + 64];",
            f"    out[threadIdx.x] = {result};", "}",
        ])  # fmt: skip
        made = compile_device(source, target, find_compiler(target), include_dirs=[include_dir()])
        assert made.asm is not None
        code = [line.split()[0] for line in made.asm.splitlines() if line.startswith("\tv_")]
        return len(code), sum(TRANSCENDENTAL.match(word) is not None for word in code)

    own, none = counted(FUNCTIONS[name]), counted(None)
    return own[0] - none[0], own[1] - none[1]


def on_gpu() -> str:
    """Time in additions, and the largest errors over all f32, of each function on the GPU of this machine."""
    texts: dict[str, list[str]] = {"kernels": [], "calls": []}
    for name in PAIRS:
        f = FUNCTIONS[name]
        call, exact = f.cpp[HOPPER].format("x", f"{EXPONENT}f"), IN_F64[f.fast_of or name]
        for part, text in (("kernels", KERNELS), ("calls", CALLS)):
            texts[part].append(text.replace("{name}", name).replace("{call}", call).replace("{exact}", exact))
    source = PROGRAM.replace("{helpers}", "\n".join(helpers(PAIRS, HOPPER)))
    for part, found in texts.items():
        source = source.replace(f"{{{part}}}", "".join(found))
    with tempfile.TemporaryDirectory() as folder:
        path, program = Path(folder) / "costs.cu", Path(folder) / "costs"
        path.write_text(source, encoding="utf-8")
        subprocess.run(["nvcc", "-arch=sm_90a", "-O3", "-w", "-o", str(program), str(path)], check=True)
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def counts() -> Iterator[str]:
    """A line of `costs.toml` for each function on gfx942."""
    for name in PAIRS:
        all_, slow = instructions(name)
        yield f"{name} = {{ instructions = {all_}, transcendental = {slow} }}\n"


if __name__ == "__main__":
    print(on_gpu() if sys.argv[1:] == ["sm_90a"] else "".join(counts()), end="")
