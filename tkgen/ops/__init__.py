"""The operations of a transformer as operators of torch, with gradients, executed by kernels of tkgen.

>>> y = tkgen.ops.linear(tkgen.ops.rmsnorm(x, weight), projection)
>>> o = tkgen.ops.attention(q, k, v, causal=True)
>>> o.sum().backward()

Each is a spec beside this package, built for the sizes at hand the first time they are met. CPU tensors are computed by
the machine code on the emulator (for gfx942, or what `emulated` says: sm_90a by the generated C++), tensors of
an AMD GPU by the module for it, those of a Hopper GPU by the CUDA driver; what has no kernel there raises ValueError.
`torch.compile` sees operators with fake-tensor rules. Numbers are bf16, or 8-bit floats with scales; sums are f32.
"""

from tkgen.execute.operator import through_hip
from tkgen.ops.attention import attention
from tkgen.ops.groups import grouped_linear
from tkgen.ops.kernels import emulated
from tkgen.ops.layers import linear, matmul, rmsnorm, rotary, swiglu
from tkgen.ops.quantised import fp8, quantise, scaled_linear

__all__ = [
    "attention", "emulated", "fp8", "grouped_linear", "linear", "matmul", "quantise", "rmsnorm", "rotary",
    "scaled_linear", "swiglu", "through_hip",
]  # fmt: skip
