"""Statistics of machine code: what a kernel's main loop consists of, from the compiler's assembly or a disassembly.

    >>> kernel = parse_asm(text)["eight_wave"]
    >>> mix = instruction_mix(main_loop(kernel).instructions)
    >>> mix.mfma, mix.barriers, mix.others_per_mfma

A loop is found in the control flow graph: a branch back to a block that dominates it closes a natural loop, whose body
is every block that reaches the branch without passing the loop's header.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tkgen.toolchain.compiler import Location

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Instruction:
    """One machine instruction. `line` is its 1-based line in the text it was read from.

    `label` names the basic block it stands in, "" in a function's first. `sources` are the C++ lines it came from,
    where there are line tables: the innermost first, then each call that was inlined.
    """

    mnemonic: str
    operands: tuple[str, ...]
    line: int
    label: str
    sources: tuple[Location, ...] = ()

    @property
    def origin(self) -> Location | None:
        """The line of the kernel itself that this comes from, after all inlined calls."""
        return self.sources[-1] if self.sources else None


@dataclass(frozen=True)
class Function:
    """The code of one function in order; `labels` maps each label to the index of the instruction after it."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int] = field(repr=False)

    @property
    def flat_accesses(self) -> tuple[Instruction, ...]:
        """Loads and stores through generic pointers, which are slow and count against both kinds of wait."""
        return tuple(i for i in self.instructions if i.mnemonic.startswith("flat_"))


@dataclass(frozen=True)
class Loop:
    """A natural loop: its instructions in layout order, and how many loops stand around it."""

    header: str
    instructions: tuple[Instruction, ...]
    depth: int
    innermost: bool

    @property
    def mfma_count(self) -> int:
        """Matrix instructions of one pass through all of the body."""
        return sum(_is_mfma(i.mnemonic) for i in self.instructions)


@dataclass(frozen=True)
class InstructionMix:
    """The number of instructions of each kind in some code; each is counted in exactly one field.

    Keys are the shape of a matrix instruction ("16x16x16_bf16") and the width of a memory instruction in bits per lane
    as its mnemonic says it (64 for `ds_read_b64`, 128 for `ds_read2_b64`, which fetches two).
    """

    total: int
    mfma: dict[str, int]
    valu: int
    salu: int
    scalar_loads: int
    lds_reads: dict[int, int]
    lds_writes: dict[int, int]
    lds_other: int
    global_loads: dict[int, int]
    global_to_lds: dict[int, int]
    global_stores: dict[int, int]
    global_other: int
    scratch: int
    flat: int
    barriers: int
    waits: int
    branches: int
    other: int

    @property
    def mfma_total(self) -> int:
        """Matrix instructions of all shapes."""
        return sum(self.mfma.values())

    @property
    def others_per_mfma(self) -> float | None:
        """Instructions that are no matrix instructions, per matrix instruction; None without one."""
        return (self.total - self.mfma_total) / self.mfma_total if self.mfma_total else None


def parse_asm(text: str) -> dict[str, Function]:
    """The functions of clang's AMDGPU assembly (`-S`), by name in their order."""
    files: dict[int, str] = {}
    functions: dict[str, Function] = {}
    name, body, labels = "", list[Instruction](), dict[str, int]()
    declared: set[str] = set()
    label, sources = "", tuple[Location, ...]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = _strip_comment(raw)
        if not line:
            continue
        if match := _FILE.match(line):
            folder, file = match["directory"], match["name"]
            files[int(match["number"])] = f"{folder}/{file}" if file and folder != "." else file or folder
        elif match := _LOC.match(line):
            row = int(match["line"])
            place = Location(files.get(int(match["file"]), "?"), row, int(match["column"]))
            sources = (place, *_inlined_at(raw)) if row else ()
        elif match := _FUNCTION_TYPE.match(line):
            declared.add(match["name"])
        elif match := _SIZE.match(line):
            if match["name"] == name:
                functions[name] = Function(name, tuple(body), labels)
                name = ""
        elif match := _LABEL.match(line):
            if match["name"] in declared:
                name, body, labels, label, sources = match["name"], [], {}, "", ()
            elif name:
                label = match["name"]
                labels[label] = len(body)
        elif name and (match := _INSTRUCTION.match(line)):
            operands = _split_operands(match["operands"])
            body.append(Instruction(match["mnemonic"], operands, number, label, sources))
    return functions


def loops(function: Function) -> tuple[Loop, ...]:
    """The natural loops of a function in layout order; loops with one header are one."""
    import networkx as nx  # takes 0.15 s, and a check reads no machine code

    blocks = _blocks(function)
    graph = _flow(function, blocks)
    dominators = nx.immediate_dominators(graph, 0)
    bodies: dict[int, set[int]] = {}
    for tail, head in graph.edges:
        if tail in dominators and _dominates(dominators, head, tail):
            bodies.setdefault(head, {head}).update(_loop_body(graph, head, tail))
    found = []
    for head, body in sorted(bodies.items()):
        depth = sum(head in other and other != body for other in bodies.values())
        innermost = not any(h != head and h in body for h in bodies)
        instructions = tuple(i for b in sorted(body) for i in function.instructions[blocks[b] : blocks[b + 1]])
        found.append(Loop(function.instructions[blocks[head]].label, instructions, depth, innermost))
    return tuple(found)


def main_loop(function: Function) -> Loop | None:
    """The loop that multiplies: of those with matrix instructions and no such loop inside, the one with the most.

    None where no loop multiplies (a single K-step is unrolled away).
    """
    every = [loop for loop in loops(function) if loop.mfma_count]
    leaves = [a for a in every if not any(b is not a and _inside(b, a) for b in every)]
    return max(leaves, key=lambda loop: loop.mfma_count, default=None)


def instruction_mix(instructions: Iterable[Instruction]) -> InstructionMix:
    """Count instructions by kind; each falls into exactly one."""
    kinds: Counter[str] = Counter()
    tables: dict[str, Counter[str]] = {}
    total = 0
    for instruction in instructions:
        kind, key = classify(instruction)
        total += 1
        kinds[kind] += 1
        if key:
            tables.setdefault(kind, Counter())[key] += 1

    def widths(kind: str) -> dict[int, int]:
        return {int(k): n for k, n in sorted(tables.get(kind, Counter()).items(), key=lambda item: int(item[0]))}

    return InstructionMix(
        total=total,
        mfma=dict(sorted(tables.get("mfma", Counter()).items())),
        valu=kinds["valu"],
        salu=kinds["salu"],
        scalar_loads=kinds["scalar load"],
        lds_reads=widths("lds read"),
        lds_writes=widths("lds write"),
        lds_other=kinds["lds"],
        global_loads=widths("global load"),
        global_to_lds=widths("global to lds"),
        global_stores=widths("global store"),
        global_other=kinds["global"],
        scratch=kinds["scratch"],
        flat=kinds["flat"],
        barriers=kinds["barrier"],
        waits=kinds["wait"],
        branches=kinds["branch"],
        other=kinds["other"],
    )


def classify(instruction: Instruction) -> tuple[str, str]:
    """The kind of an instruction and, for matrix and sized memory instructions, its shape or width in bits."""
    name = instruction.mnemonic
    family, _, rest = name.partition("_")
    if match := _MFMA.match(name):
        return "mfma", f"{match['shape']}_{match['type'].removesuffix('_1k')}"
    if family == "v":
        return "valu", ""
    if family == "ds":
        return _classify_lds(rest)
    if family in ("global", "buffer"):
        return _classify_global(rest, instruction.operands)
    if family in ("scratch", "flat"):
        return family, ""
    if family == "s":
        return _classify_scalar(rest), ""
    return "other", ""


def _classify_lds(rest: str) -> tuple[str, str]:
    if match := re.match(r"(?P<op>read|write|load|store)(?P<two>2?)(?:st64)?_(?:addtid_)?[biu](?P<bits>\d+)", rest):
        kind = "lds read" if match["op"] in ("read", "load") else "lds write"
        return kind, str(int(match["bits"]) * (2 if match["two"] else 1))
    return "lds", ""


def _classify_global(rest: str, operands: tuple[str, ...]) -> tuple[str, str]:
    match = re.match(r"(?P<op>load|store)_(?:lds_)?(?:format_)?(?P<type>[a-z0-9]+)", rest)
    if not match:
        return "global", ""
    modifiers = " ".join(operands).split()
    if match["op"] == "load" and ("lds" in modifiers or rest.startswith("load_lds")):
        return "global to lds", str(_width(match["type"]))
    return f"global {match['op']}", str(_width(match["type"]))


def _width(kind: str) -> int:
    """Bits per lane of a `dwordx4`, `ushort`, `b96`..."""
    if match := re.match(r"dwordx?(\d*)", kind):
        return 32 * int(match[1] or 1)
    if match := re.match(r"[a-z]+(\d+)", kind):
        return int(match[1])
    return 8 if "byte" in kind else 16


def _classify_scalar(rest: str) -> str:
    if rest.startswith("barrier"):
        return "barrier"
    if rest.startswith("waitcnt") or rest.startswith("wait_"):
        return "wait"
    if rest.startswith(("branch", "cbranch", "setpc", "swappc", "call", "endpgm")):
        return "branch"
    if rest.startswith(("load", "buffer_load", "scratch_load")):
        return "scalar load"
    if rest.startswith(
        ("nop", "sleep", "setprio", "sethalt", "sendmsg", "trap", "icache", "dcache", "memtime", "inst_")
    ):
        return "other"
    return "salu"


_FILE = re.compile(r'\.file\s+(?P<number>\d+)\s+"(?P<directory>[^"]*)"(?:\s+"(?P<name>[^"]*)")?')
_LOC = re.compile(r"\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)")
_FUNCTION_TYPE = re.compile(r"\.type\s+(?P<name>[^\s,]+),\s*@function")
_SIZE = re.compile(r"\.size\s+(?P<name>[^\s,]+),")
_LABEL = re.compile(r'"?(?P<name>[\w.$@]+)"?:$')
_INSTRUCTION = re.compile(r"(?P<mnemonic>[a-z][a-z0-9_]*)(?:\s+(?P<operands>.*))?$")
_MFMA = re.compile(r"v_s?mfma[a-z]*_(?:scale_)?[a-z]\d+_(?P<shape>\d+x\d+x\d+)_?(?P<type>\w+)$")


def _is_mfma(mnemonic: str) -> bool:
    return _MFMA.match(mnemonic) is not None


def _inlined_at(line: str) -> Iterator[Location]:
    """The calls around an inlined instruction, from clang's comment after `.loc`: `@[ file:line:col @[ ...`."""
    for match in re.finditer(r"@\[ (?P<file>.+?):(?P<line>\d+):(?P<column>\d+)(?= )", line):
        yield Location(match["file"], int(match["line"]), int(match["column"]))


def _strip_comment(line: str) -> str:
    """An assembly line without its `; comment`; quoted names keep their semicolons."""
    if ";" not in line:
        return line.strip()
    if '"' not in line:
        return line[: line.index(";")].strip()
    return re.sub(r'("[^"]*")|;.*', lambda m: m[1] or "", line).strip()


def _split_operands(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r",(?![^\[]*\])", text)) if text else ()


def _is_branch(mnemonic: str) -> bool:
    return mnemonic.startswith(("s_branch", "s_cbranch"))


def _blocks(function: Function) -> list[int]:
    """The indices at which basic blocks begin, and the number of instructions after them."""
    starts = {0, *function.labels.values()}
    for index, instruction in enumerate(function.instructions):
        if _is_branch(instruction.mnemonic) or instruction.mnemonic == "s_endpgm":
            starts.add(index + 1)
    count = len(function.instructions)
    return [*sorted(s for s in starts if s < count), count]


def _flow(function: Function, blocks: list[int]) -> nx.DiGraph[int]:
    import networkx as nx

    number = {start: block for block, start in enumerate(blocks[:-1])}
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(max(len(blocks) - 1, 1)))
    for block, end in enumerate(blocks[1:]):
        last = function.instructions[end - 1]
        target = function.labels.get(last.operands[-1]) if _is_branch(last.mnemonic) and last.operands else None
        if target is not None and target in number:
            graph.add_edge(block, number[target])
        if last.mnemonic not in ("s_branch", "s_endpgm", "s_setpc_b64") and end in number:
            graph.add_edge(block, number[end])
    return graph


def flow(function: Function) -> tuple[list[int], list[list[int]]]:
    """The indices at which basic blocks begin and the last one ends, and for each block those that may come next."""
    blocks = _blocks(function)
    graph = _flow(function, blocks)
    return blocks, [sorted(graph.successors(block)) for block in range(len(blocks) - 1)]


def _dominates(dominators: Mapping[int, int | None], head: int, node: int) -> bool:
    while node != head:
        above = dominators.get(node)
        if above is None or above == node:
            return False
        node = above
    return True


def _loop_body(graph: nx.DiGraph[int], head: int, tail: int) -> Iterator[int]:
    seen, stack = {head}, [tail]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(graph.predecessors(node))
    yield from seen


def _inside(inner: Loop, outer: Loop) -> bool:
    lines = {i.line for i in outer.instructions}
    return len(inner.instructions) < len(outer.instructions) and all(i.line in lines for i in inner.instructions)
