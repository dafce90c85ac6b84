"""No branch but a loop's own follows an MFMA within its wait states, for LLVM then misses some where the ways meet.

A construct whose code branches has products settle before it; without that its branch would stand too close. What the
other constructs need not settle for has no branch.
"""

from __future__ import annotations

import pytest
from lowering import compiled, gemm, lowered

from tkgen.toolchain.isa import Function, Instruction, loops, parse_asm

WAIT_STATES = 18  # at most, after an MFMA that is not of f64: CDNA3 and CDNA4 ISA, "Manually Inserted Wait States"

MULTIPLY_FIRST = """  registers A, B slice 16 buffers 2
  schedule barriers auto waits auto
    group read A B  multiply
    group {load}
"""
COLLECTIVE, STAGED = "load A[k+1] B[k+1]", "fetch A[k+1] B[k+1]  write A[k+1] B[k+1]"
UNEVEN = {"tile": "16 x 64", "waves": "  waves 4 x 2\n", "block": "64 x 256 step 32", "dtype": "f16"}
DYNAMIC = "M = dynamic, N = dynamic, K = dynamic"


def close_branches(function: Function) -> list[Instruction]:
    """Branches that fewer wait states than that separate from an MFMA on some way, and that are no loop's own."""
    code, labels = function.instructions, function.labels
    own: set[int] = set()
    places = {id(instruction): at for at, instruction in enumerate(code)}
    for loop in loops(function):
        body = {places[id(instruction)] for instruction in loop.instructions}
        for at in body:
            if code[at].mnemonic.startswith("s_cbranch") and not {labels[code[at].operands[0]], at + 1} <= body:
                own.add(at)
    found: set[int] = set()
    for start, mfma in enumerate(code):
        if not mfma.mnemonic.startswith("v_mfma"):
            continue
        nearest: dict[int, int] = {}
        todo = [(start + 1, 0)]
        while todo:
            at, states = todo.pop()
            if states >= min(WAIT_STATES, nearest.get(at, WAIT_STATES)) or code[at].mnemonic == "s_endpgm":
                continue
            nearest[at] = states
            instruction = code[at]
            after = states + (int(instruction.operands[0], 0) + 1 if instruction.mnemonic == "s_nop" else 1)
            if instruction.mnemonic.startswith(("s_branch", "s_cbranch")):
                todo.append((labels[instruction.operands[0]], after))
            if instruction.mnemonic.startswith("s_cbranch") and at not in own:
                found.add(at)
            if instruction.mnemonic != "s_branch":
                todo.append((at + 1, after))
    return [code[at] for at in sorted(found)]


def branches_of(source: str, target: str) -> list[Instruction]:
    asm = compiled(source, target).asm
    assert asm is not None
    (function,) = parse_asm(asm).values()
    assert any(i.mnemonic.startswith("v_mfma") for i in function.instructions)
    return close_branches(function)


CONSTRUCTS = {
    "lanes without a piece to load": gemm(MULTIPLY_FIRST.format(load=COLLECTIVE), **UNEVEN),
    "lanes without a piece to write": gemm(
        MULTIPLY_FIRST.format(load=STAGED), shared="  shared A, B buffers 1 via registers\n", **UNEVEN
    ),
    "rows that end inside a piece": gemm("  tail masked\n" + MULTIPLY_FIRST.format(load=COLLECTIVE), shape=DYNAMIC),
    "rows that end inside a piece, fetched": gemm(
        "  tail masked\n" + MULTIPLY_FIRST.format(load=STAGED),
        shape=DYNAMIC,
        shared="  shared A, B buffers 1 via registers\n",
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_products_settle_before_code_that_branches(name: str) -> None:
    source = lowered(CONSTRUCTS[name])
    assert branches_of(source, "gfx942") == []
    assert branches_of(source.replace("tk::settle();", ""), "gfx942") != []


BRANCHLESS = {
    "a tensor that is not read where its factor is zero": gemm().replace(
        "  accumulate", "  scalar beta : f32\n  epilogue add(C, beta)\n  accumulate"
    ),
    "sizes known at run time": gemm(MULTIPLY_FIRST.format(load=COLLECTIVE), shape=DYNAMIC),
    "rows along K, as many as show at run time": gemm(
        "  allow slow_reads\n" + MULTIPLY_FIRST.format(load=COLLECTIVE), shape=DYNAMIC, a="K, M", b="K, N"
    ),
    "tiles whose rows end with half a panel": gemm(
        "  registers A, B slice 16 buffers 2\n  schedule waits auto\n    cluster fetch B[k+1]  load A\n"
        "    cluster read B(0; 0) B(1; 0) A(0; 0)  multiply (*, 0; 0)  read A(*; 1)\n"
        "    group read B(*; 1)  multiply (*, 1; 0)  read A(*; 2)  multiply (0, *; 1)\n    cluster read B(*; 2)\n"
        "    group multiply (*, *; 2)  write B[k+1]\n",
        block="32 x 64 step 48",
        shape="M = 32, N = 64, K = 96",
        waves="  waves 1 x 1\n",
        shared="  shared A buffers 2\n  shared B buffers 2 via registers\n",
    ),
    "pieces of other rows for each lane": gemm(
        MULTIPLY_FIRST.format(load=COLLECTIVE),
        shape="M = 192, N = 96, K = dynamic",
        block="192 x 96 step 32",
        waves="  waves 3 x 1\n",
        tile="64 x 96",
        a="K, M",
    ),
}


@pytest.mark.parametrize("name", BRANCHLESS)
def test_the_other_constructs_have_no_branch(name: str) -> None:
    source = lowered(BRANCHLESS[name])
    assert branches_of(source.replace("tk::settle();", ""), "gfx942") == []
