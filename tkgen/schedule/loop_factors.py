"""Loops whose products take what is read elsewhere, too: such a value is rounded for the products, and for the rest.

    p = bf16(s)                ->        f = bf16(s)    p = bf16(s)
    l = l + rowsum(p)                    l = l + rowsum(p)
    o = o + p @ V[j]                     o = o + f @ V[j]

Products hold their factors in their own layout, of 16 bits; everything else is computed on f32.
"""

from __future__ import annotations

from dataclasses import replace

from tkgen.ir.equations import Convert, Kernel, Loop, Op, Product, Value, reads, walk, writes
from tkgen.ir.substitution import Named, substituted
from tkgen.ir.verifier import verify


def apart(kernel: Kernel, loop: Loop) -> Kernel:
    """The kernel with values of the body of `loop`, one of its operations, that are factors of products alone."""
    taken = {v for op in loop.body if isinstance(op, Product) for v in reads(op)}
    read = {v for op in walk(loop.body) if not isinstance(op, Product) for v in reads(op)}
    both = {op.result for op in loop.body if isinstance(op, Convert)} & taken & read
    if not both:
        return kernel
    last = max(v.number for op in walk(kernel.body) for v in (*writes(op), *_carried(op)))
    rounded, body = dict[Named, Named](), list[Op]()
    for op in loop.body:
        if isinstance(op, Convert) and op.result in both:
            last += 1
            factor = replace(op.result, number=last, name="")
            rounded[op.result] = factor
            body.append(replace(op, result=factor))
        body.append(substituted(op, rounded) if isinstance(op, Product) else op)
    ops = tuple(replace(loop, body=tuple(body)) if op is loop else op for op in kernel.body)
    return verify(replace(kernel, body=ops), "rounding")


def _carried(op: Op) -> tuple[Value, ...]:
    return tuple(c.inside for c in op.carries) if isinstance(op, Loop) else ()
