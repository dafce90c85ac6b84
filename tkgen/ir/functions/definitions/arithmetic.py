"""Sums, differences, products, quotients: rounded to nearest, once (IEEE 754)."""

from __future__ import annotations

from tkgen.ir.functions.model import BACK_ENDS, CDNA, HOPPER, HOST, Function

SETTLED = """\
/// A number that is computed before anything takes it: LLVM takes 0 - x for -x where that is an operand.
__device__ inline float settled(float x) {
    asm("" : "+v"(x));
    return x;
}"""

POSITION = 1
FUNCTIONS = (
    Function(
        "add", 2, "The sum.", lambda a, b: a + b, lambda a, b: (a.new_ones(()), b.new_ones(())),
        dict.fromkeys(BACK_ENDS, "{0} + {1}"), "{0} + {1}", ulps=0.5, operator="+", whole=True,
    ),
    Function(
        "sub", 2, "The difference.", lambda a, b: a - b, lambda a, b: (a.new_ones(()), b.new_ones(())),
        dict.fromkeys(BACK_ENDS, "{0} - {1}"), "{0} - {1}", ulps=0.5, operator="-", whole=True,
    ),
    Function(
        "mul", 2, "The product.", lambda a, b: a * b, lambda a, b: (b.abs(), a.abs()),
        dict.fromkeys(BACK_ENDS, "{0} * {1}"), "{0} * {1}", ulps=0.5, operator="*", whole=True,
    ),
    # A quotient by what many elements share may be a product with its reciprocal: 1 rounding more.
    Function(
        "div", 2, "The quotient.", lambda a, b: a / b, lambda a, b: (1 / b.abs(), a.abs() / b.square()),
        dict.fromkeys(BACK_ENDS, "{0} / {1}"), "{0} / {1}", ulps=1.5, operator="/",
    ),
    Function(
        "neg", 1, "The negative.", lambda a: -a, lambda a: (a.new_ones(()),),
        dict.fromkeys(BACK_ENDS, "-{0}"), "-{0}", operator="-", whole=True,
    ),
    Function(
        "settled", 1, "The number itself (`tkgen.ir.zeros`).", lambda a: a, lambda a: (a.new_ones(()),),
        {CDNA: "settled({0})", HOPPER: "{0}", HOST: "{0}"}, "{0}", {CDNA: (SETTLED,)}, internal=True,
    ),
)  # fmt: skip
