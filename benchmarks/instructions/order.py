"""Instructions without a result: what each is for (`order.toml`), and that it leaves all registers as they were."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from instructions import encode, machine
from instructions.machine import ALL_LANES, State
from instructions.memory import Notes
from instructions.table import Opcode
from instructions.vector_cases import integer_bits, seed_of
from tkgen.emulate.decode import Encoding

E = Encoding
TEST = "tests/emulate/test_order.py"
# These end the run, or need more than one block.
NOT_RUN = re.compile(r"s_(endpgm|trap|sethalt|sendmsg)$|ds_gws_barrier$")


@dataclass(frozen=True)
class Purpose:
    """The purpose of some instructions; `seen` where a test sees their order."""

    opcodes: re.Pattern[str]
    does: str
    seen: bool


@cache
def purposes() -> tuple[Purpose, ...]:
    """Of `order.toml`."""
    found = tomllib.loads((Path(__file__).parent / "order.toml").read_text())
    return tuple(
        Purpose(re.compile(f"({one['opcodes']})$"), one["does"], kind == "order")
        for kind in ("order", "time")
        for one in found[kind]
    )


def purpose(name: str) -> Purpose | None:
    """The purpose of an instruction without a result; None for one that has a result."""
    return next((p for p in purposes() if p.opcodes.match(name)), None)


def words_of(opcode: Opcode, rng: np.random.Generator) -> list[int]:
    """The instruction with some immediate."""
    number, immediate = opcode.number, int(rng.integers(0, 16))
    if opcode.encoding is E.SOPP:
        return [0b101111111 << 23 | number << 16 | immediate]
    if opcode.encoding is E.SMEM:
        return [0b110000 << 26 | number << 18, 0]
    if opcode.encoding is E.VOP1:
        return [encode.vop1(number, 0, 0)]
    if opcode.encoding is E.VOP3:
        return encode.vop3(number, 0, (0,))
    if opcode.encoding is E.DS:
        return encode.ds(number)
    assert opcode.encoding is E.MUBUF, opcode
    return encode.mubuf(number)


def cases(opcode: Opcode, count: int) -> Iterator[tuple[list[int], State]]:
    """`count` cases of an opcode, with random registers."""
    for number in range(0 if NOT_RUN.match(opcode.name) else count):
        rng = seed_of(opcode, number)
        wide = [int(x) for x in rng.integers(0, 1 << 63, 4, dtype=np.uint64)]
        rows = np.stack([integer_bits(rng, 32).astype(np.uint32) for _ in range(12)])
        mask = (ALL_LANES, 0, wide[3])[number % 3]
        yield words_of(opcode, rng), State(rows, [0] * 4, wide[0], mask, 7, number % 2, wide[1], wide[2])


def differences(got: State, before: State) -> list[str]:
    """Registers that are not as they were."""
    found = [
        f"{n} changed" for n in ("vcc", "exec", "m0", "scc", "low", "high") if getattr(got, n) != getattr(before, n)
    ]
    return found + ["vector registers changed"] * bool((got.rows != before.rows).any())


def compare(some: Iterable[Notes], targets: Sequence[str], count: int) -> None:
    """Run the cases of some records on each target, and note what changed."""
    made = [(record, *case) for record in some for case in cases(record.opcode, count)]
    for target in targets:
        mine = [case for case in made if target in case[0].opcode.targets]
        after = machine.run([(words, before) for _, words, before in mine], target)
        for (record, words, before), got in zip(mine, after, strict=True):
            record.note(target, "", words, differences(got, before))
