"""From the text or the file of a spec to its plan, for the tests of all folders."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tkgen.ir.program import matrix_program
from tkgen.ir.types import Program
from tkgen.schedule.plan import Plan, plan
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse, parse_path
from tkgen.targets import Target, load_target


def target_of(program: Program) -> Target:
    """The first target that a spec names."""
    return load_target(next(iter(program.targets), "gfx942"))


def scheduled(program: Program) -> Plan:
    """A program's plan for the first target it names."""
    return plan(program, target_of(program))


def program(text: str, defines: Mapping[str, int | None] | None = None) -> Program:
    """The program of a text."""
    return matrix_program(parse(SourceFile("test.tk", text)), defines)


def planned(text: str, defines: Mapping[str, int | None] | None = None) -> Plan:
    """The plan of a text."""
    return scheduled(program(text, defines))


def planned_file(path: Path, defines: Mapping[str, int | None] | None = None) -> Plan:
    """The plan of a file, made once."""
    return _planned(path, tuple((defines or {}).items()))


@cache
def _planned(path: Path, defines: tuple[tuple[str, int | None], ...]) -> Plan:
    return scheduled(matrix_program(parse_path(path, [path.parent]), dict(defines)))
