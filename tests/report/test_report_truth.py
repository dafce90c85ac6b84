"""Every number of a report against the machine code itself: the bytes of the code object, decoded by the emulator."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from report_specs import SPECS

from tkgen.api import load
from tkgen.backends.cdna.lower.origins import Performed
from tkgen.build import Build
from tkgen.emulate import load as load_code
from tkgen.emulate.decode import Program, decode
from tkgen.predict import Workload
from tkgen.predict.stream import Unit, block_streams
from tkgen.report import Facts, facts, prediction
from tkgen.report.places import statements
from tkgen.targets.model import UnknownTargetError
from tkgen.tile.ops import LOADS, TILE_WRITES, Multiply, Read, Store
from tkgen.tile.program import Op, Part, Place
from tkgen.toolchain.metadata import read_resources

EVERY = sorted(SPECS.glob("*.tk"))
SAMPLE = {
    "alpha_beta", "hk_12c4p_3", "macro_tiles", "ping_pong", "producer_consumer_4p8c", "split_k", "subtiles_16",
    "tunable_staged",
}  # fmt: skip
every_spec = pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=() if p.stem in SAMPLE else pytest.mark.slow) for p in EVERY]
)


@cache
def built(path: Path) -> tuple[Build, Facts, Program, list[str]]:
    """A build, its facts, its code and the instructions in it by name."""
    build = load(path).build()
    found = facts(build)
    code = load_code(build.hsaco)
    program = decode(code.code, code.target)
    starts = program.starts()[: len(found.texts.isa)]
    return build, found, program, [program.mnemonic(i) for i in starts]


def spelled(name: str) -> str:
    """An instruction as assembler and decoder both call it: without its encoding."""
    return re.sub(r"_(e32|e64|dpp|sdwa)$", "", name)


@every_spec
def test_the_instructions_are_those_of_the_code_object(path: Path) -> None:
    _, found, _, names = built(path)
    shown = [line.text.split()[0] for line in found.texts.isa]
    assert len(shown) == len(names)
    memory = ("ds_", "buffer_", "global_", "v_mfma", "s_barrier", "s_waitcnt", "s_setprio", "s_cbranch")
    for a, b in zip(shown, names, strict=True):
        if a.startswith(memory) or b.startswith(memory):
            assert spelled(a).replace("_dword_lds", "_dword") == spelled(b).replace("_dword_lds", "_dword")


@every_spec
def test_accesses_stand_at_the_operations_that_make_them(path: Path) -> None:
    """A read of LDS stands at lines that read, a write at lines that fill, and so on: none without a line."""
    build, found, _, _ = built(path)
    kinds: dict[int, set[type[Op]]] = {}
    for s in statements(build.spec.plan, build.spec.source):
        kinds.setdefault(s.line, set()).add(s.kind)
    allowed = {
        "lds read": {Read}, "lds write": {*TILE_WRITES}, "global to lds": {*TILE_WRITES}, "mfma": {Multiply},
        "global load": {*LOADS, Store}, "global store": {Store}, "global": {Store},
    }  # fmt: skip
    for line in found.texts.isa:
        if line.kind in allowed:
            done = set().union(*(kinds.get(n, set()) for n in line.cpp))
            assert line.cpp and done & allowed[line.kind], line
            assert {row for n in line.cpp for row in found.texts.cpp[n - 1].spec}, line


def test_each_clusters_line_has_its_own_instructions() -> None:
    """Of ping_pong: what a cluster's line says is what its instructions do."""
    _, found, _, _ = built(SPECS / "ping_pong.tk")
    for row, spec in enumerate(found.texts.spec, 1):
        kinds = Counter(
            line.kind for line in found.texts.isa if any(row in found.texts.cpp[n - 1].spec for n in line.cpp)
        )
        words = spec.text.split()
        if words[:1] == ["cluster"]:
            assert bool(kinds["mfma"]) == ("multiply" in words)
            assert bool(kinds["lds read"]) == ("read" in words)
            assert bool(kinds["lds write"]) == ("write" in words)
            assert bool(kinds["global load"]) == ("fetch" in words)
        if words[:1] == ["registers"]:
            assert kinds["lds read"] == 48
        if words[:1] == ["phase"]:
            assert kinds["barrier"] == 2


def test_a_schedule_with_a_name_leads_to_what_it_placed() -> None:
    _, found, _, _ = built(SPECS / "tunable_staged.tk")
    row = next(i for i, line in enumerate(found.texts.spec, 1) if line.text.strip().startswith("schedule"))
    mine = Counter(line.kind for line in found.texts.isa if any(row in found.texts.cpp[n - 1].spec for n in line.cpp))
    every = Counter(line.kind for line in found.texts.isa)
    assert all(mine[kind] == every[kind] > 0 for kind in ("mfma", "lds read", "lds write", "global load", "barrier"))


@every_spec
def test_each_multiply_has_the_matrix_instructions_of_its_tiles(path: Path) -> None:
    """Rows times columns times slices, by what one instruction computes: worked out from the schedule alone."""
    build, found, _, _ = built(path)
    plan, program = build.spec.plan, build.spec.program
    rows, cols = program.accumulator.tile
    slices = 1 + max(t for b in plan.bodies.values() for o in b if isinstance(o, Multiply) for t in o.slices)
    depth = program.block[2] // slices
    for wave in plan.waves:
        for part in Part:
            for i, op in enumerate(wave.ops(part)):
                if not isinstance(op, Multiply):
                    continue
                lines = set(build.spec.source.operations[Performed(wave.name, Place(part, i))])
                here = [
                    line.text.split()[0] for line in found.texts.isa if lines & set(line.cpp) and line.kind == "mfma"
                ]
                sizes = [re.search(r"_(\d+)x(\d+)x(\d+)", name) for name in here]
                flops = sum(int(s[1]) * int(s[2]) * int(s[3]) for s in sizes if s)
                assert flops == len(op.rows) * len(op.cols) * rows * cols * depth * len(op.slices), str(op)


@every_spec
def test_the_lds_table_is_that_of_the_code(path: Path) -> None:
    _, found, _, names = built(path)
    shown: Counter[str] = Counter()
    for access in found.lds.accesses:
        shown[access.instruction] += access.count
    assert shown == Counter(name for name in names if name.startswith("ds_"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.stem, marks=() if p.stem in SAMPLE else pytest.mark.slow)
        for p in EVERY
        if not p.stem.startswith("hk_")  # for gfx950, of which it is not published which lanes it serves together
    ],
)
def test_bank_conflicts_are_those_of_the_addresses(path: Path) -> None:
    """The emulator's addresses, lane by lane: no access is served more often than the table says, and one as often."""
    build, found, _, _ = built(path)
    target = build.spec.target
    program = build.spec.program
    extents = {d.name: 8 * build.spec.plan.shape.unroll * max(program.block) for d in program.dims if d.size is None}
    served: dict[str, int] = {}
    for wave in block_streams(Workload.of(build, extents), target):
        for x in (*wave.prologue, *wave.body):
            if x.unit is Unit.LDS:
                name = built(path)[2].mnemonic(x.address)
                one = x.lds_bytes // target.lds_write_bytes_per_clock
                bits = 16 if name.endswith("16") else 32
                one = max(one, 2) if bits == 16 else one  # half a wave a cycle
                served[name] = max(served.get(name, 0), -(-x.lds_cycles // max(one, 1)))
    table: dict[str, int] = {}
    for access in found.lds.accesses:
        table[access.instruction] = max(table.get(access.instruction, 0), access.ways)
    assert served == {name: ways for name, ways in table.items() if name in served} and served


@every_spec
def test_registers_are_those_of_the_code(path: Path) -> None:
    build, found, _, _ = built(path)
    resources = read_resources(build.hsaco)[build.resources.kernel]
    press = found.pressure
    assert press.allotted == build.spec.target.allotted_registers(max(resources.total_vgpr, resources.vgpr))
    highest = {"v": 0, "a": 0}
    for line in found.texts.isa:
        for kind, last in re.findall(r"\b([va])(?:\[\d+:)?(\d+)\b", line.text):
            highest[kind] = max(highest[kind], int(last) + 1)
    assert max(r.needs for r in press.roles) <= highest["v"] + highest["a"] <= press.allotted
    assert all(0 < r.needs <= press.allotted and r.unused == press.allotted - r.needs for r in press.roles)
    assert press.used == max(resources.total_vgpr, resources.vgpr)
    if len(press.roles) == 1:
        assert press.roles[0].needs == highest["v"] + highest["a"]
    for role in press.roles:
        assert f"about {role.needs}" not in press.note


@every_spec
def test_figures_are_those_of_the_code_object(path: Path) -> None:
    build, found, _, names = built(path)
    by_key = {f.key: f.value for f in found.figures}
    resources = read_resources(build.hsaco)[build.resources.kernel]
    for name in ("vgpr", "agpr", "sgpr", "vgpr_spills", "sgpr_spills", "scratch_bytes", "kernarg_bytes"):
        assert by_key[f"resources.{name}"] == getattr(resources, name)
    assert by_key["lds_bytes"] == resources.lds_static_bytes == found.lds.used
    assert by_key["flat_instructions"] == sum(name.startswith("flat_") for name in names)
    loop = [(line, name) for line, name in zip(found.texts.isa, names, strict=True) if line.loop]
    assert by_key["main_loop.total"] == len(loop) == sum(entry.count for entry in found.mix)
    counts = Counter(line.kind for line, _ in loop)
    counted = {entry.key: entry.count for entry in found.mix}
    assert counted["mfma"] == counts["mfma"] == sum(name.startswith("v_mfma") for _, name in loop)
    assert counted.get("barriers", 0) == counts["barrier"] == sum(name == "s_barrier" for _, name in loop)
    pipe = found.pipeline
    assert (
        counts["barrier"]
        == pipe.barriers_per_step * pipe.steps_per_pass
        == by_key["barriers_per_step"] * (by_key["steps_per_pass"])
    )


def test_the_block_order_is_that_of_the_predicted_product() -> None:
    build = load(SPECS / "ping_pong.tk").build()
    for product in ("MI300X", "MI325X"):
        found = facts(build, prediction(build, product), product=product)
        assert found.order.product == found.product == product
        assert found.prediction is not None and product in found.prediction.by
    with pytest.raises(UnknownTargetError):
        facts(build, product="MI355X")
