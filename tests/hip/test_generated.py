"""Outputs of `--emit harness` and `--emit module`, executed: check programs of kernels, and the Python module."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import sys

from sampling import only
from test_harness_kinds import CASES, case

from tkgen import load
from tkgen.backends.cdna import kittens
from tkgen.backends.cdna.lower.harness import harness_cpp
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.hip import find_hip
from tkgen.toolchain.module import build_module, missing_for_module

FLAGS = ("-std=c++20", "-DKITTENS_CDNA3", f"-I{kittens.include_dir()}", "-Wno-unknown-pragmas")


@pytest.mark.parametrize("name", only(CASES, ("fp8_rowwise",)))
def test_the_check_program_finds_the_kernel_right(compiled, ended, name):
    """It exits with 0 and finds no element wrong; the kernel is launched as on a GPU."""
    found = case(name)
    body = harness_cpp(found.checked, found.target).replace(f'#include "{name}.cpp"', found.text)
    flags = tuple(f.replace("CDNA3", "CDNA4") if found.target == "gfx950" else f for f in FLAGS)
    got = ended(compiled(body, found.target, flags=flags), "--repeats", "1", "--warmup", "0")
    assert got.status == 0 and "WRONG" not in got.out and "right" in got.out, got


USE = """
import ctypes, struct, sys
sys.path.insert(0, sys.argv[1])
hip = ctypes.CDLL("libamdhip64.so")
import product

class Tensor:
    def __init__(self, rows, columns, element):
        self.shape, self.element, self.at = (rows, columns), element, ctypes.c_void_p()
        assert hip.hipMallocManaged(ctypes.byref(self.at), ctypes.c_size_t(rows * columns * element), 1) == 0
        self.device = type("device", (), {"type": "cuda"})
        self.bytes = (ctypes.c_char * (rows * columns * element)).from_address(self.at.value)
    def data_ptr(self): return self.at.value
    def is_contiguous(self): return True
    def element_size(self): return self.element

a, b, c = Tensor(64, 96, 2), Tensor(64, 96, 2), Tensor(64, 64, 4)
left = [[(i * 7 + k) % 5 - 2 for k in range(96)] for i in range(64)]
right = [[(j * 3 + k) % 7 - 3 for k in range(96)] for j in range(64)]
for tensor, rows in ((a, left), (b, right)):
    tensor.bytes[:] = b"".join(struct.pack("<f", x)[2:] for row in rows for x in row)
product.dispatch(a, b, c, 0)
assert hip.hipDeviceSynchronize() == 0
found = struct.unpack("<4096f", c.bytes[:])
wanted = [sum(x * y for x, y in zip(r, s)) for r in left for s in right]
print("right" if list(found) == wanted else "WRONG")
"""

PRODUCT = """kernel product
  dims M = 64, N = 64, K = 96
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 64, n in N by 64
  waves 1
  shared A, B
  each k in K by 32
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
"""


def test_the_python_module_launches_its_kernel(ended, tmp_path):
    spec = load(PRODUCT).check()
    target = load_target("gfx942")
    compiler, hip = find_compiler(target), find_hip()
    if missing := missing_for_module(compiler, hip):
        pytest.skip("; ".join(f"{m.what} is missing: {m.install}" for m in missing))
    build_module(spec.source.text, "product", target, compiler, tmp_path, include_dirs=[kittens.include_dir()])
    got = ended(sys.executable, "-c", USE, str(tmp_path), target="gfx942")
    assert got.out == "right\n", got
