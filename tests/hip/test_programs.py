"""Programs as people write them, unchanged, on the emulated GPU. Each judges its own results."""

from __future__ import annotations

import re

import pytest
from sampling import only, sample

from tests.hip.conftest import PROGRAMS
from tkgen.emulate.program import emulated
from tkgen.sanitize.program import Refereed

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.hip"))


@pytest.fixture(scope="module")
def together(compiled):
    """All programs in one, each in a namespace, so that HIP's headers are compiled once; compiles it for a target."""
    texts = {name: (PROGRAMS / f"{name}.hip").read_text() for name in NAMES}
    included = sorted({line for text in texts.values() for line in re.findall(r"^#include .*", text, re.MULTILINE)})
    parts = [f'namespace {name} {{\n#include "{name}.hip"\n}}' for name in NAMES]
    calls = [f'if (!std::strcmp(words[1], "{name}")) return {name}::main();' for name in NAMES]
    main = ["int main(int, char **words) {", *calls, "return 9;", "}"]
    text = "\n".join([*included, "#include <cstring>", '#include "check.h"', *parts, *main])
    return lambda target: compiled(text, target)


def right(ended) -> bool:
    return ended.status == 0 and ended.out.splitlines()[-1:] in (["right"], ["after"])


@pytest.mark.parametrize("name", NAMES)
def test_a_program(together, ended, name):
    got = ended(together("gfx942"), name)
    assert right(got), got


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize("name", NAMES)
def test_a_program_on_other_targets(together, ended, target, name):
    got = ended(together(target), name)
    assert right(got), got


@pytest.mark.parametrize("name", sample(NAMES, every=12))
def test_a_program_as_a_file_of_its_own(compiled, ended, name):
    got = ended(compiled(f"{name}.hip", "gfx942"))
    assert right(got), got


@pytest.mark.parametrize("name", only(NAMES, ("last_block", "reduction", "grid_sync")))
def test_the_referee_accuses_no_program(together, ended, name):
    found: list = []
    program = together("gfx942")
    got = ended(program, name, launcher=Refereed(str(program), emulated(), found.extend, schedules=2))
    assert right(got), got
    assert [d for d in found if d.code.startswith("E")] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_the_referee_asks_for_a_barrier_of_the_grid(compiled, ended, target):
    """A barrier of the block does not order what other blocks store."""
    text = (PROGRAMS / "grid_sync.hip").read_text()
    found: list = []
    program = compiled(text.replace("grid.sync()", "__syncthreads()"), target)
    ended(program, target=target, launcher=Refereed(str(program), emulated(), found.extend, schedules=2))
    assert {d.code for d in found} == {"E701"}, found
