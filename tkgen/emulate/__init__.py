"""Run AMDGPU code objects on the CPU, and watch every byte they touch.

    from tkgen.emulate import Buffer, Scalar, launch
    outcome = launch("gemm.hsaco", grid=(64, 1, 1), block=(256, 1, 1), args=[Buffer(a), Scalar("i32", 64)], watch=True)

The instruction set is that of gfx90a, gfx942 and gfx950. `code_object` reads the file, `decode` the instructions,
`launch` sets up memory and registers and calls the interpreter in `core/`; `findings` is what comes back.
"""

from tkgen.emulate.arguments import Arg, Buffer, Bytes, Hollow, Scalar, Struct
from tkgen.emulate.code_object import CodeObject, Kernel, load, patched
from tkgen.emulate.errors import EmulateError
from tkgen.emulate.findings import Access, Finding, Kind, Space
from tkgen.emulate.launch import Interleaving, Policy, TraceRequest, interleavings, launch
from tkgen.emulate.outcome import Outcome, Trace, Written

__all__ = [
    "Access",
    "Arg",
    "Buffer",
    "Bytes",
    "CodeObject",
    "EmulateError",
    "Finding",
    "Hollow",
    "Interleaving",
    "Kernel",
    "Kind",
    "Outcome",
    "Policy",
    "Scalar",
    "Space",
    "Struct",
    "Trace",
    "TraceRequest",
    "Written",
    "interleavings",
    "launch",
    "load",
    "patched",
]
