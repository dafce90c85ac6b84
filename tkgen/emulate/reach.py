"""The instructions of a kernel that control flow can reach, from the decoded code alone."""

from __future__ import annotations

from tkgen.emulate.decode import Program


def reachable(program: Program, entry: int) -> set[int]:
    """Dwords of the instructions that control flow from dword `entry` reaches.

    Calls are taken to return; a function that is called through registers (`s_swappc`) is not followed.
    """
    found: set[int] = set()
    todo = [entry]
    while todo:
        i = todo.pop()
        if i in found or not 0 <= i < len(program.ops):
            continue
        found.add(i)
        todo += successors(program, i)
    return found


def successors(program: Program, i: int) -> list[int]:
    """The dwords that may be executed after the instruction at a dword."""
    found = jumps_to(program, i)
    if not program.mnemonic(i).startswith(("s_endpgm", "s_setpc", "s_rfe", "s_branch")):
        found.append(after(program, i))
    return found


def jumps_to(program: Program, i: int) -> list[int]:
    """The dword that a branch goes to; none of another instruction."""
    if not program.mnemonic(i).startswith(("s_branch", "s_cbranch", "s_call")):
        return []
    return [i + 1 + int(program.ops[i]["offset"])]


def after(program: Program, i: int) -> int:
    """The dword after an instruction."""
    return i + max(int(program.ops[i]["size"]) // 4, 1)
