"""Operands that go from global memory straight to registers: in every layout and type, beside every way into LDS, in
rings of registers, under tails and sizes of run time, in schedules of tkgen's own and in written ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from sampling import sample
from typer.testing import CliRunner

pytest.importorskip("torch")

from tkgen import api
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run
from tkgen.ir.graph import dependencies
from tkgen.machine_check import RIGHT
from tkgen.report import facts, write_report
from tkgen.tile.ops import Take
from tkgen.tile.program import Drain, Op, Part

TEXT = """\
kernel past_lds
  target {target}
  dims M = {m}, N = {n}, K = {k}
  global A : {dtype}[{a}]
  global B : {dtype}[{b}]
  global C : f32[M, N]
  block {block}
  waves {waves}
{ways}
  accumulate C : f32 tile {tile}
  allow slow_reads, low_occupancy
  store C
{rest}"""
DEFAULTS = {
    "target": "gfx942", "m": 128, "n": 64, "k": 160, "dtype": "bf16", "a": "M, K", "b": "N, K",
    "block": "64 x 64 step 32", "waves": "1 x 4", "tile": "32 x 16", "rest": "",
    "ways": "  shared A buffers 2\n  registers B buffers 2",
}  # fmt: skip
BOTH = "  registers A, B buffers 2"
# A arrives directly, two instructions a wave, then B's two of the next step.
COUNTED = """\
  schedule
    group copy A[k+1]
    group read B[k+1]  read A
    cluster multiply  wait vm {left}
"""
DIRECT = {"target": "gfx950", "ways": "  shared A buffers 2 via direct\n  registers B buffers 2", "n": 128, "k": 256,
          "block": "64 x 64 step 64"}  # fmt: skip


def spec(folder: Path, **changes: object) -> api.Spec:
    path = folder / "past_lds.tk"
    path.write_text(TEXT.format(**(DEFAULTS | changes)))
    return api.load(path)


def codes(made: api.Spec) -> list[str]:
    with pytest.raises(SpecError) as caught:
        made.check()
    return [d.code for d in caught.value.diagnostics]


def right(made: api.Spec, orders: int = 2, **extents: int) -> bool:
    """Built, its machine code watched and found right, and right in some orders of the waves."""
    build = made.check().build().check()
    assert build.machine_check.outcome == RIGHT
    return all(run(build, extents=extents or None, order=order).ok for order in interleavings(orders))


@pytest.mark.parametrize("dtype", sample(["bf16", "f16", "f32"], 2))
@pytest.mark.parametrize(("a", "b"), [("M, K", "N, K"), ("M, K", "K, N"), ("K, M", "N, K"), ("K, M", "K, N")])
def test_layouts_and_types(tmp_path: Path, dtype: str, a: str, b: str) -> None:
    assert right(spec(tmp_path, dtype=dtype, a=a, b=b, ways=BOTH), 1)


@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize(("one", "other"), ["AB", "BA"])
@pytest.mark.parametrize("via", sample(["collective", "registers"], 2))
def test_beside_an_operand_in_lds(tmp_path: Path, target: str, via: str, one: str, other: str) -> None:
    ways = f"  shared {one} buffers 2 via {via}\n  registers {other} slice 16 buffers 3"
    assert right(spec(tmp_path, target=target, ways=ways), 1)


@pytest.mark.parametrize(("a", "b"), [("M, K", "N, K"), ("K, M", "K, N")])
@pytest.mark.parametrize("rest", ["", "  schedule interleave\n"])
def test_beside_direct_loads(tmp_path: Path, a: str, b: str, rest: str) -> None:
    """In wide tiles; the compiler's waits for them know nothing of the direct loads."""
    assert right(spec(tmp_path, **DIRECT | {"a": a, "b": b, "rest": rest}), 20)


def test_ping_pong(tmp_path: Path) -> None:
    made = spec(tmp_path, m=128, n=256, k=192, block="128 x 256 step 64", waves="2 x 4", tile="32 x 32",
                ways="  shared A via registers\n  registers A slice 32\n  registers B slice 32 buffers 2",
                rest="  schedule ping_pong\n")  # fmt: skip
    assert right(made)


@pytest.mark.parametrize("buffers", [1, 2, 3, 5])
@pytest.mark.parametrize("k", sample([16, 32, 64, 96, 208], 3))
def test_a_ring_of_registers(tmp_path: Path, buffers: int, k: int) -> None:
    ways = f"  registers A slice 16\n  registers B slice 16 buffers {buffers}"
    assert right(spec(tmp_path, k=k, ways=ways, rest="  tail masked\n"), 1)


def test_a_ring_is_read_ahead(tmp_path: Path) -> None:
    """With three buffers two steps are on their way while one is multiplied, and both before the loop."""
    plan = spec(tmp_path, ways="  shared A\n  registers B buffers 3").check().plan
    (wave,) = plan.waves
    assert {op.offset for body in plan.bodies.values() for op in body if isinstance(op, Take)} == {2}
    first = [p.offset for p in wave.before if isinstance(p, Take)]
    assert first == [0, 1]


@pytest.mark.parametrize("tail", ["masked", "clamped"])
@pytest.mark.parametrize("ways", [BOTH, DEFAULTS["ways"]])
def test_tails(tmp_path: Path, tail: str, ways: str) -> None:
    sizes = {"m": 41, "n": 99, "k": 77} if tail == "masked" else {"m": 112, "n": 104, "k": 96}
    assert right(spec(tmp_path, **sizes, ways=ways, rest=f"  tail {tail}\n"))


@pytest.mark.parametrize(("a", "b"), [("M, K", "N, K"), ("K, M", "K, N")])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 64, 64), (65, 130, 94), (40, 72, 72)])
def test_sizes_of_run_time(tmp_path: Path, a: str, b: str, m: int, n: int, k: int) -> None:
    made = spec(tmp_path, m="dynamic", n="dynamic", k="dynamic", a=a, b=b, ways="  registers A, B",
                rest="  tail masked\n")  # fmt: skip
    assert right(made, 1, M=m, N=n, K=k)


@pytest.mark.parametrize("grid", ["persistent(3)", "split_k(2)", "stream_k(3)"])
def test_grids(tmp_path: Path, grid: str) -> None:
    ways = "  shared A buffers 2\n  registers A, B slice 16 buffers 1"
    assert right(spec(tmp_path, n=128, k=128, ways=ways, rest=f"  grid {grid}\n"))


def test_roles_leave_it_out(tmp_path: Path) -> None:
    path = tmp_path / "roles.tk"
    path.write_text("""\
kernel roles
  dims M = 64, N = 128, K = 160
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 64 x 64 step 32
  shared A buffers 2
  role producer waves 0..1
    load A
  role consumer waves 2..5 as 1 x 4
    registers B buffers 2
    accumulate C : f32 tile 32 x 16
    store C
""")
    assert right(api.load(path))


def test_neither_lds_nor_barriers(tmp_path: Path) -> None:
    build = spec(tmp_path, ways=BOTH).check().build().check()
    used = {i.mnemonic for i in build.function.instructions}
    assert build.lds_bytes == 0 and build.spec.plan.barriers_per_step == 0
    assert not [m for m in used if m.startswith(("ds_", "s_barrier"))] and "buffer_load_dwordx2" in used


def test_the_report_of_a_kernel_without_lds(tmp_path: Path) -> None:
    """Its pictures, instructions and links have nothing of LDS, and nothing is drawn of it."""
    build = spec(tmp_path, ways=BOTH).check().build().check()
    page = tmp_path / "report.html"
    write_report([build], page)
    text = page.read_text()
    assert "This kernel does not use LDS." in text and 'data-picture="swizzle"' not in text
    found = facts(build)
    reads = {k.covered for k in found.pipeline.links if k.kind == "RAW"}
    assert not found.lds.buffers and not found.lds.accesses and reads == {"vmcnt, program order"}


def test_products_by_equations(tmp_path: Path) -> None:
    """X through LDS, the two weights past it; a batch, and a matrix whose rows lie apart."""
    path = tmp_path / "equations.tk"
    path.write_text("""\
kernel equations
  dims HEADS = 2, M = 64, N = 64, K = 96
  global X : bf16[M, HEADS, K]
  global G : bf16[HEADS, N, K]
  global U : bf16[HEADS, N, K]
  global Y : bf16[HEADS, M, N]
  over h in HEADS, m in M by 64, n in N by 64
  waves 1 x 4
  shared X buffers 2
  registers G, U buffers 2
  each k in K by 32
    g = g + X[m, h, k] @ G[h, n, k].T
    u = u + X[m, h, k] @ U[h, n, k].T
  Y[h, m, n] = silu(g) * u
""")
    assert right(api.load(path))


# ---------------------------------------------------------------- what is proven


@pytest.mark.parametrize("k", [64, 128, 192, 576])
def test_a_counted_wait_counts_them(tmp_path: Path, k: int) -> None:
    """Reads past LDS after direct loads stay in flight when these are waited for, as on the machine."""
    assert right(spec(tmp_path, **DIRECT | {"k": k, "rest": COUNTED.format(left=2)}), 20)


BEHIND = COUNTED.format(left=2)
BESIDE = BEHIND.replace("group copy A[k+1]\n    group read", "group copy A[k+1]  read")
BEFORE = COUNTED.format(left=1).replace(
    "group copy A[k+1]\n    group read B[k+1]", "group read B[k+1]\n    group copy A[k+1]"
)


@pytest.mark.parametrize("schedule", [COUNTED.format(left=3), BESIDE, BEFORE])
def test_a_wait_that_counts_too_many_is_refused(tmp_path: Path, schedule: str) -> None:
    """The compiler may put a read of the same line in front of the copy; one in front of it completes before it."""
    assert set(codes(spec(tmp_path, **DIRECT | {"rest": schedule}))) == {"E304"}


def test_what_is_never_multiplied_is_not_counted(tmp_path: Path) -> None:
    """The compiler leaves it out: here the first of two reads into the same registers."""
    twice = COUNTED.format(left=4).replace("group read B[k+1]", "group read B[k+1]\n    group read B[k+1]")
    assert "E304" in codes(spec(tmp_path, **DIRECT | {"rest": twice}))
    assert right(spec(tmp_path, **DIRECT | {"rest": twice.replace("vm 4", "vm 2")}), 1)


def test_tkgens_own_waits_leave_them_in_flight(tmp_path: Path) -> None:
    """Of three steps in LDS the one before the last has arrived; two copies and two reads after it have not."""
    plan = spec(tmp_path, **DIRECT | {"ways": DIRECT["ways"].replace("buffers 2 via", "buffers 3 via")}).check().plan
    waits = [p.count for p in plan.waves[0].tiles.body if isinstance(p, Drain) and p.stream == "vm"]
    assert waits and set(waits) == {4}


@pytest.mark.parametrize(("wrong", "kind"), [(1, "register"), (-1, "register")])
def test_another_step_is_another_sum(tmp_path: Path, wrong: int, kind: str) -> None:
    """Both proofs see it: the walk along the waves, and what is stored as terms."""
    plan = spec(tmp_path).check().plan
    assert not plan.conflicts() and not plan.wrong_stores()

    def moved(placed: Op) -> Op:
        return placed.moved(placed.at, 2 * wrong) if isinstance(placed, Take) else placed

    (wave,) = plan.waves
    changed = plan.with_ops(wave.name, Part.BODY, tuple(map(moved, wave.ops(Part.BODY))))
    assert kind in {c.kind for c in changed.conflicts()} and changed.wrong_stores()


def test_a_register_that_is_still_multiplied_is_not_filled(tmp_path: Path) -> None:
    schedule = (
        "  schedule barriers auto waits auto\n    cluster load A[k+1]  read A\n    cluster read B[k+2]  multiply\n"
    )
    assert "E310" in codes(spec(tmp_path, rest=schedule))
    assert right(spec(tmp_path, rest=schedule.replace("k+2", "k+1")))


def test_the_graph_knows_no_lds_of_it(tmp_path: Path) -> None:
    found = [d for d in dependencies(spec(tmp_path).check().plan.graph) if d.operand == "B"]
    assert {(d.kind, d.medium) for d in found} == {("RAW", "register"), ("WAR", "register")}
    assert not any(d.crosses_waves for d in found)


# ---------------------------------------------------------------- what is refused, and what is said


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ways": "  shared A"}, "E205"),
        ({"ways": "  registers B buffers 17\n  shared A"}, "E208"),
        ({"ways": "  shared A, B\n  registers B buffers 3"}, "E208"),
        ({"rest": "  schedule\n    cluster load A B\n    cluster read A B  multiply\n"}, "E220"),
        ({"ways": DEFAULTS["ways"] + "\n  load A, B"}, "E220"),
        ({"ways": BOTH, "rest": "  schedule interleave\n"}, "E216"),
        ({"ways": BOTH.replace("2", "3"), "rest": "  grid stream_k(3)\n"}, "E608"),
    ],
)
def test_what_cannot_be(tmp_path: Path, changes: dict[str, object], code: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(tmp_path, **changes).check()
    assert code in [d.code for d in caught.value.diagnostics]


def test_hopper_takes_shared_memory(tmp_path: Path) -> None:
    path = tmp_path / "hopper.tk"
    path.write_text(TEXT.format(**DEFAULTS | {"target": "sm_90a"}))
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 1 and "operands bypass shared memory, but sm_90a has only `via direct`" in result.output


def test_single_elements_are_said(tmp_path: Path) -> None:
    path = tmp_path / "slow.tk"
    path.write_text(TEXT.format(**DEFAULTS | DIRECT | {"b": "K, N"}).replace("slow_reads, ", ""))
    found = [d for d in api.load(path).diagnostics if d.code == "W201"]
    assert [d.message for d in found] == ["`B` is read from global memory one element at a time"]


def test_registers_on_their_way_are_counted(tmp_path: Path) -> None:
    """A ring holds all of its tiles while loads are in flight."""
    from tkgen.checks.registers import estimate
    from tkgen.targets import load_target

    tiles = []
    for buffers in (1, 2, 4):
        plan = spec(tmp_path, ways=f"  shared A\n  registers B buffers {buffers}").check().plan
        tiles.append(estimate(plan, load_target("gfx942")).roles[0].tiles)
    one = plan.program.operand("B").registers_per_tile * plan.program.operand("B").fragments
    assert [t - tiles[0] for t in tiles] == [0, one, 3 * one]
