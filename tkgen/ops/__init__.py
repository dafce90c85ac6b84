"""The operations of a transformer as operators of torch, with gradients, carried out by kernels of tkgen.

>>> y = tkgen.ops.linear(tkgen.ops.rmsnorm(x, weight), projection)
>>> o = tkgen.ops.attention(q, k, v, causal=True)
>>> o.sum().backward()

Each is a spec beside this package, built for the sizes at hand the first time they are met. CPU tensors are computed by
the machine code on the emulator (for gfx942, or what `emulated` says), tensors of an AMD GPU by the module for it.
`torch.compile` sees operators with fake-tensor rules. Numbers are bf16; sums are f32.
"""

from tkgen.ops.attention import attention
from tkgen.ops.kernels import emulated
from tkgen.ops.layers import linear, rmsnorm, rotary, swiglu

__all__ = ["attention", "emulated", "linear", "rmsnorm", "rotary", "swiglu"]
