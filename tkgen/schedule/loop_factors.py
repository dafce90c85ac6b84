"""Loops whose products take what is read elsewhere, too: such a value is rounded for the products, and for the rest.

    p = bf16(s)                ->        f = bf16(s)    p = bf16(s)
    l = l + rowsum(p)                    l = l + rowsum(p)
    o = o + p @ V[j]                     o = o + f @ V[j]

Products hold their factors in their own layout, of 16 bits; everything else is computed on f32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from tkgen.ir.equations import Convert, Kernel, Loop, Op, Product, Value, reads, walk, writes
from tkgen.ir.substitution import Named, substituted
from tkgen.ir.verifier import verify


def apart(kernel: Kernel) -> Kernel:
    """The kernel with values that are factors of products alone."""
    taken = {v for op in walk(kernel.body) if isinstance(op, Product) for v in reads(op)}
    read = {v for op in walk(kernel.body) if not isinstance(op, Product) for v in reads(op)}
    both = {op.result for op in walk(kernel.body) if isinstance(op, Convert)} & taken & read
    if not both:
        return kernel
    numbers = count(1 + max(v.number for op in walk(kernel.body) for v in (*writes(op), *_carried(op))))
    rounded = dict[Named, Named]()

    def body(ops: Iterable[Op]) -> Iterator[Op]:
        for op in ops:
            if isinstance(op, Convert) and op.result in both:
                factor = replace(op.result, number=next(numbers), name="")
                rounded[op.result] = factor
                yield replace(op, result=factor)
            if isinstance(op, Loop):
                op = replace(op, body=tuple(body(op.body)))
            yield substituted(op, rounded) if isinstance(op, Product) else op

    return verify(replace(kernel, body=tuple(body(kernel.body))), "rounding")


def _carried(op: Op) -> tuple[Value, ...]:
    return tuple(c.inside for c in op.carries) if isinstance(op, Loop) else ()
