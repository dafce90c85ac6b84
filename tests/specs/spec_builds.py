"""Specs compiled for tests, two at a time, and the numbers that their headers promise.

The third line of a spec's header says what it must reach, as terms `name value` or `name <= value` with commas between:

    # expect waves 8, barriers/step 2, vgpr <= 128, lds 32768

- `waves`: waves of a block;
- `barriers/step`: barriers that every wave passes in one steady K-step;
- `vgpr`: registers per lane that the hardware allots, VGPRs and AGPRs together;
- `lds`: bytes of LDS of a block.

No spec spills, uses scratch or holds a flat instruction, so that is asserted of all and not written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from planning import planned_file

from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower import lower
from tkgen.checks.shared_memory import lds_bytes
from tkgen.ir.types import Program
from tkgen.schedule import Plan, plan
from tkgen.targets import load_target
from tkgen.targets.resources import Resources
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


@dataclass(frozen=True)
class Built:
    """A spec compiled for one target."""

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
        (resources,) = read_resources(self.hsaco).values()
        return resources

    @cached_property
    def function(self) -> Function:
        return parse_asm(self.asm)[self.resources.kernel]

    @cached_property
    def loop(self) -> InstructionMix | None:
        """One pass of the loop that multiplies."""
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
    schedule = planned_file(path, defines)
    gpu = schedule.target if target is None else load_target(target)
    if gpu != schedule.target:
        schedule = plan(schedule.program, gpu)
    text = lower(schedule, gpu.name, str(path)).text
    result = compile_device(text, gpu, find_compiler(gpu), include_dirs=[include_dir()], source_name=f"{path.stem}.cpp")
    assert result.asm is not None and result.hsaco is not None
    return Built(schedule, text, result.asm, result.hsaco, result.warnings)


class Builds:
    """Every spec for the first of its targets, compiled once; the first use starts all of the compilations."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2)
        self._futures: dict[str, Future[Built]] = {}
        self._alone = "PYTEST_XDIST_WORKER" not in os.environ

    def get(self, name: str) -> Built:
        for each in NAMES if self._alone else [name]:
            if each not in self._futures:
                self._futures[each] = self._pool.submit(compiled, SPECS / f"{each}.tk")
        return self._futures[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
