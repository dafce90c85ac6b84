"""Slips in the C++ of Hopper kernels: of what is mutated in schedules (`mutating.hopper`), its counterpart in the text.

A mutant is one call of the kernel left out, made twice, or given another stage, phase, count or coordinate, or two
neighbouring ones exchanged. Unlike a schedule's, each can be compiled and run on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

KERNEL = "__global__"
CALL = re.compile(
    r"\b(?:(?:everyone::)?tma::(?:cluster::)?\w+|warpgroup::(?:store|mma?_\w+)|init_semaphore|wait|(?:\w+::)?(?:arrive|sync))"
    r"(?:<[^()]*?>)?(?=\()"
)
"""What of a kernel orders, copies, multiplies or stores."""
NOTHING = "((void)0)"


@dataclass(frozen=True)
class Call:
    """A call in the text, its end after its last bracket."""

    name: str
    start: int
    end: int
    arguments: tuple[str, ...]

    @property
    def plain(self) -> str:
        """The name without what stands in angle brackets and namespaces."""
        return self.name.split("<")[0].rsplit("::", 1)[-1]


def calls(source: str) -> Iterator[Call]:
    """The calls of the kernel, those in comments left out."""
    for match in CALL.finditer(source, source.index(KERNEL)):
        line = source[source.rfind("\n", 0, match.start()) + 1 : match.start()]
        if "//" in line:
            continue
        cuts, depth, at = [match.end()], 0, match.end()
        while True:
            depth += (source[at] in "([{") - (source[at] in ")]}")
            if depth == 0:
                break
            if depth == 1 and source[at] == ",":
                cuts.append(at)
            at += 1
        arguments = (source[a + 1 : b].strip() for a, b in zip(cuts, [*cuts[1:], at], strict=True))
        yield Call(match[0], match.start(), at + 1, tuple(a for a in arguments if a))


def mutants(source: str) -> Iterator[tuple[str, str, str]]:
    """(kind, what, the changed text), in a fixed order."""
    found = list(calls(source))
    for call in found:
        text = source[call.start : call.end]
        for kind, instead in _edits(call, text):
            yield kind, text, source[: call.start] + instead + source[call.end :]
    yield from _exchanged(source, found)


def _edits(call: Call, text: str) -> Iterator[tuple[str, str]]:
    """The slips that one call can be: (kind, what stands in its place)."""
    first, *others = call.arguments or ("",)
    match call.plain:
        case "init_semaphore":
            for by in (" + 1", " - 1"):
                counted = [*call.arguments[:-1], f"({call.arguments[-1]}){by}"]
                if call.arguments[-1] != "1" or by == " + 1":
                    yield "arrivals +-1", f"{call.name}({', '.join(counted)})"
        case "wait" if call.arguments:
            yield "no wait for a phase", NOTHING
            yield "the other phase", f"wait({first}, ({others[0]}) ^ 1)"
        case "arrive" | "wait" if not call.arguments:
            yield "no barrier of a cluster", NOTHING
        case "sync":
            yield "no barrier of a warpgroup", NOTHING
        case "arrive":
            yield "no arrival", NOTHING
            yield "an arrival too many", f"({text}, {text})"
        case "expect":
            yield "bytes of another number", f"{call.name}({', '.join([*call.arguments, others[-1]])})"
            if len(others) > 1:
                yield "bytes of another number", f"{call.name}({', '.join(call.arguments[:-1])})"
        case "mma_async_wait" | "store_async_read_wait":
            stream = "products" if call.plain == "mma_async_wait" else "stores"
            left = re.search(r"<(.*)>", call.name)
            bare = call.name.split("<")[0]
            yield f"no wait for {stream}", NOTHING
            yield f"a wait for {stream} that leaves one more", f"{bare}<({left[1] if left else 0}) + 1>()"
        case _:
            yield "an operation left out", NOTHING
            staged = re.sub(r"_s\[(stage|left|right|last)\]", lambda m: f"_s[({m[1]} + 1) % {_ring(m[1])}]", text)
            if staged != text:
                yield "another stage", staged
            if call.plain == "load_async":
                yield "another tile", re.sub(r"\{([^{}]*)\}", _next_tile, text, count=1)


def _ring(stage: str) -> str:
    return {"left": "LEFT_BUFFERS", "right": "RIGHT_BUFFERS"}.get(stage, "STAGES")


def _next_tile(box: re.Match[str]) -> str:
    *others, last = box[1].split(",")
    before = f"{others[-1]} + 1" if last.strip() == "0" else others[-1]
    return f"{{{', '.join([*others[:-1], before, last if last.strip() == '0' else f'{last} + 1'])}}}"


def _exchanged(source: str, found: list[Call]) -> Iterator[tuple[str, str, str]]:
    """Neighbouring lines, whole statements both, each with a call."""
    starts = sorted({source.rfind("\n", 0, call.start) + 1 for call in found})
    for one in starts:
        two = source.index("\n", one) + 1
        end = source.index("\n", two) + 1
        first, second = source[one:two], source[two:end]
        if two in starts and _statement(first) and _statement(second) and _indent(first) == _indent(second):
            yield "two steps exchanged", first.strip(), source[:one] + second + first + source[end:]


def _statement(line: str) -> bool:
    return line.split("//")[0].rstrip().endswith(";") and not line.lstrip().startswith(("constexpr", "const"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
