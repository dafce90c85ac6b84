"""Cases of a regression of a kernel: the figures that its spec expects, and the sizes worth running."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tkgen.backends.protocol import Build
from tkgen.backends.spec import AnySpec

TERM = re.compile(r"(?P<name>[\w/]+) (?P<sign><= )?(?P<value>\d+)")


@dataclass(frozen=True)
class Expectation:
    """A term of a spec's `# expect` line: `name value`, or `name <= value`."""

    name: str
    at_most: bool
    value: int


def expectations(header: str) -> list[Expectation]:
    """The terms of the `expect` line of a header comment, such as `expect waves 8, barriers/step 2, vgpr <= 128`.

    Raises:
        ValueError: a term that is not `name value` or `name <= value`.
    """
    found = []
    for line in header.splitlines():
        if line.startswith("expect "):
            for term in line.removeprefix("expect ").split(", "):
                match = TERM.fullmatch(term.strip())
                if match is None:
                    raise ValueError(f"`{term}` is not an expectation: write `name value` or `name <= value`")
                found.append(Expectation(match["name"], match["sign"] is not None, int(match["value"])))
    return found


def unmet(build: Build) -> str:
    """List the expectations of the spec that the build does not meet; return an empty text if it meets all."""
    have, wrong = build.named_figures(), []
    for e in expectations(build.spec.program.header):
        if e.name not in have:
            wrong.append(f"there is no {e.name}; the names are {', '.join(have)}")
        elif not (have[e.name] <= e.value if e.at_most else have[e.name] == e.value):
            wrong.append(f"{e.name} is {have[e.name]}, expected {'at most ' if e.at_most else ''}{e.value}")
    return "; ".join(wrong)


def size_cases(spec: AnySpec) -> list[dict[str, int]]:
    """Sizes worth trying, by the names of dimensions; those that are left out are the spec's own."""
    return list(spec.size_cases())


def blocks_text(blocks: Sequence[int]) -> str:
    """`block 3`, or `blocks 0, 2048, 4095`."""
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"
