"""Every opcode that the emulator executes, beside AMD's pseudo-code: a table of agreement.

    python benchmarks/opcodes.py                    the table, and what differs
    python benchmarks/opcodes.py --opcode v_fract   those whose mnemonic has it, with the first cases that differ
    python benchmarks/opcodes.py --count 20         20 cases for each form of an opcode
    python benchmarks/opcodes.py --write            docs/opcodes.md

Each opcode runs in every form that it has, with random operands and edge values, modifiers, masks and modes, on each
target. Texts that are read otherwise than written are in `instructions/readings.toml`, with a source; what only a GPU
can decide is in `tkgen/emulate/undecided.toml`. Exit code 1 if an opcode differs from its text or its reading.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from instructions import page
from instructions.checks import records
from instructions.table import TARGETS, opcodes

PAGE = Path(__file__).parent.parent / "docs/opcodes.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opcode", default="", help="part of the mnemonics to compare")
    parser.add_argument("--count", type=int, default=7, help="cases for each form of an opcode")
    parser.add_argument("--target", action="append", choices=TARGETS, help="all of them by default")
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args()
    if given.write and (given.opcode or given.target):
        parser.error("the page has all opcodes on all targets")
    found = records([o for o in opcodes() if given.opcode in o.name], given.target or TARGETS, given.count)
    print(page.table(found))
    wrong = [r for r in found if r.samples]
    for record in wrong:
        print(f"\n{record.opcode.encoding.name} {record.opcode.name}: {sum(record.wrong.values())} cases differ")
        for sample in record.samples[:3]:
            print(f"  {sample}")
    if given.write:
        PAGE.write_text(page.page(found))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
