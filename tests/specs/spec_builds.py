"""Specs compiled for tests, several in one file, and the numbers that their headers promise.

The third line of a spec's header says what it must reach, as terms `name value` or `name <= value` with commas between:

    # expect waves 8, barriers/step 2, vgpr <= 128, lds 32768

- `waves`: waves of a block;
- `barriers/step`: barriers that every wave passes in one steady K-step;
- `vgpr`: registers per lane that the hardware allots, VGPRs and AGPRs together;
- `lds`: bytes of LDS of a block.

No spec spills, uses scratch or holds a flat instruction, so that is asserted of all and not written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from planning import planned_file

from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower.render import lower
from tkgen.checks.shared_memory import lds_bytes
from tkgen.ir.types import Program
from tkgen.schedule.plan import Plan, plan
from tkgen.targets import load_target
from tkgen.targets.model import Resources
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.isa import Function, InstructionMix, instruction_mix, main_loop, parse_asm
from tkgen.toolchain.metadata import read_resources

SPECS = Path(__file__).parents[2] / "specs"
NAMES = sorted(path.stem for path in SPECS.glob("*.tk"))
TERM = re.compile(r"(?P<name>[a-z/]+) (?P<bound><= )?(?P<value>\d+)")


@dataclass(frozen=True)
class Expectation:
    """One term of an expect line."""

    name: str
    value: int
    is_bound: bool

    def holds(self, value: int) -> bool:
        return value <= self.value if self.is_bound else value == self.value


def expectations(text: str) -> list[Expectation]:
    """The terms of an expect line, with or without `# ` before it."""
    found = re.fullmatch(r"(?:# )?expect (.*)", text)
    assert found, f"no expect line: {text}"
    terms = [TERM.fullmatch(term) for term in found[1].split(", ")]
    assert all(terms), f"an expect line has terms `name value` or `name <= value`: {text}"
    return [Expectation(t["name"], int(t["value"]), t["bound"] is not None) for t in terms if t]


resources, functions = cache(read_resources), cache(parse_asm)


@dataclass(frozen=True)
class Built:
    """A spec compiled for one target, maybe with others in one file."""

    plan: Plan
    source: str
    asm: str = field(repr=False)
    hsaco: bytes = field(repr=False)
    warnings: str

    @property
    def program(self) -> Program:
        return self.plan.program

    @cached_property
    def resources(self) -> Resources:
        name = self.program.name
        (found,) = (r for r in resources(self.hsaco).values() if f"{len(name)}{name}" in r.kernel)
        return found

    @cached_property
    def function(self) -> Function:
        return functions(self.asm)[self.resources.kernel]

    @cached_property
    def loop(self) -> InstructionMix | None:
        """One iteration of the loop that multiplies."""
        loop = main_loop(self.function)
        return None if loop is None else instruction_mix(loop.instructions)

    def figure(self, name: str) -> int:
        """A number that an expect line can name."""
        figures = {
            "waves": self.program.waves,
            "barriers/step": self.plan.barriers_per_step,
            "vgpr": self.resources.total_vgpr,
            "lds": lds_bytes(self.program),
        }
        return figures[name]


def compiled(path: Path, target: str | None = None, defines: Mapping[str, int | None] | None = None) -> Built:
    """The spec at `path` for `target`, or for the first that it names."""
    (built,) = together([path], target, defines)
    return built


def together(
    paths: Sequence[Path], target: str | None = None, defines: Mapping[str, int | None] | None = None
) -> list[Built]:
    """Specs of one target compiled as one file, which takes less time than a compiler for each."""
    schedules = [planned_file(path, defines) for path in paths]
    gpu = schedules[0].target if target is None else load_target(target)
    schedules = [s if s.target == gpu else plan(s.program, gpu) for s in schedules]
    texts = [lower(s, gpu.name, str(path)).text for s, path in zip(schedules, paths, strict=True)]
    result = compile_device(
        "\n".join(texts), gpu, find_compiler(gpu), include_dirs=[include_dir()], source_name=f"{paths[0].stem}.cpp"
    )
    assert result.asm is not None and result.hsaco is not None
    pairs = zip(schedules, texts, strict=True)
    return [Built(schedule, text, result.asm, result.hsaco, result.warnings) for schedule, text in pairs]


TOGETHER = 6  # specs in one file


@cache
def groups() -> list[list[str]]:
    """All specs by the first of their targets, a few in each group."""
    of_target: dict[str, list[str]] = {}
    for name in NAMES:
        of_target.setdefault(planned_file(SPECS / f"{name}.tk").target.name, []).append(name)
    return [names[i : i + TOGETHER] for names in of_target.values() for i in range(0, len(names), TOGETHER)]


@cache
def group(number: int) -> dict[str, Built]:
    names = groups()[number]
    return dict(zip(names, together([SPECS / f"{name}.tk" for name in names]), strict=True))


def built_once(name: str) -> Built:
    """A spec for the first of its targets, compiled once with a few others of that target."""
    (number,) = (n for n, names in enumerate(groups()) if name in names)
    return group(number)[name]
