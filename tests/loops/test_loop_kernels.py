"""Loops that multiply what they made of products: bundled specs, other shapes, the schedule and its proof, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from changed_waves import left_out, with_each
from sampling import sample
from typer.testing import CliRunner

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import unmet
from tkgen.execute.launch import emulate, run, trials
from tkgen.ir.equations import Load, When, reads, walk, writes
from tkgen.ir.meaning import evaluate
from tkgen.schedule.loop_program import bring, ring_of, write
from tkgen.schedule.loop_steps import steps, unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.ops import Barrier, Equations, Fetch, Vote, Write, barriers
from tkgen.tile.program import Part

ROOT = Path(__file__).parents[2]
SPECS = sorted(p for p in (ROOT / "specs/attention").glob("*.tk") if "\nsequence " not in p.read_text())
ATTENTION = (ROOT / "specs/attention/attention.tk").read_text(encoding="utf-8")
SMALL = ATTENTION.replace("BATCH = 2, HEADS = 16, LENGTH = 2048, D = 128", "BATCH = 1, HEADS = 2, LENGTH = 256, D = 64")
TARGETS = ("gfx942", "gfx950")
BUILDS = [
    (path, target) for path in SPECS for target in TARGETS
    if target == "gfx950" or "\n  target gfx950\n" not in path.read_text(encoding="utf-8")
]  # fmt: skip


def spec_of(text: str, target: str = "gfx942") -> Spec:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    return spec


def changed(text: str, **changes: str) -> str:
    """The text with what follows each word up to the next blank or comma exchanged."""
    words = {"D": "D = 64", "tile": "LENGTH by 128", "waves": "waves 4", "step": "by 64", "buffers": "buffers 2",
             "length": "LENGTH = 256", "dtype": "bf16"}  # fmt: skip
    for word, new in changes.items():
        assert words[word] in text
        text = text.replace(words[word], new)
    return text


def built(spec: Spec) -> Build:
    """Compiled, watched, without spills."""
    build = spec.build().check()
    assert isinstance(build, Build)
    assert build.machine_check.outcome == "right"
    assert build.resources.clean
    return build


@pytest.mark.parametrize(("path", "target"), sample(BUILDS, 3, several=True), ids=lambda p: getattr(p, "stem", p))
def test_source_figures_and_machine_code(path: Path, target: str) -> None:
    spec = tkgen.load(path, target=target)
    assert isinstance(spec, Spec) and not spec.diagnostics
    build = built(spec)
    assert not unmet(build)
    golden = ROOT / "generated" / target / f"{path.stem}.cpp"
    assert golden.exists() or target == "gfx950"
    if golden.exists():
        assert golden.read_text(encoding="utf-8") == spec.source.text


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("path", "target"), sample(BUILDS, 2, several=True), ids=lambda p: p.stem if isinstance(p, Path) else p
)
def test_numbers_are_right_in_many_interleavings(path: Path, target: str, count: int) -> None:
    text = path.read_text(encoding="utf-8")
    heads = {"HEADS": 1} | ({"KV_HEADS": 1} if "KV_HEADS" in text else {}) | ({"KEYS": 192} if "KEYS" in text else {})
    sizes = {"SEQUENCES": 3, "TOTAL": 150} if "SEQUENCES" in text else {"BATCH": 1, "LENGTH": 128}
    spec = tkgen.load(path, sizes | heads, target=target)
    assert isinstance(spec, Spec)
    right(built(spec), count)


def test_blocks_of_a_large_launch() -> None:
    spec = tkgen.load(ROOT / "specs/attention/attention.tk")
    assert isinstance(spec, Spec)
    assert not run(spec.build(), blocks=[0, 511]).failure


def test_commands_take_them(tmp_path: Path) -> None:
    """Build with its report, the regression run, check."""
    path = tmp_path / "small.tk"
    path.write_text(SMALL.replace("kernel attention", "kernel small"))
    for arguments in (
        ["build", "-o", str(tmp_path)],
        ["test", "--schedules", "1"],
        ["check", "--print-after", "schedule"],
    ):
        result = CliRunner().invoke(app, [arguments[0], str(path), *arguments[1:]])
        assert result.exit_code == 0, result.output
    report = (tmp_path / "small.html").read_text()
    assert "Who owns what" in report and "`Q`, which stays" in report and "64 x 64 bf16" in report


SHAPES = [
    {"dtype": "f16"},
    {"D": "D = 96", "waves": "waves 2"},
    {"tile": "LENGTH by 64"},  # 16 columns to a wave: MFMAs of 16 x 16
    {"buffers": "buffers 1"},
    {"buffers": "buffers 3", "length": "LENGTH = 384"},
    {"step": "by 16", "D": "D = 48", "length": "LENGTH = 128"},
    {"step": "by 128", "length": "LENGTH = 128"},  # one pass
    {"D": "D = 16", "waves": "waves 1", "tile": "LENGTH by 16", "step": "by 16", "length": "LENGTH = 48"},
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", sample(SHAPES, 2), ids=lambda s: "_".join(s.values()).replace(" ", ""))
def test_other_shapes(shape: dict[str, str], target: str) -> None:
    right(built(spec_of(changed(SMALL, **shape), target)))


def test_keys_and_queries_of_other_lengths_in_the_layout_of_models() -> None:
    """Heads between the rows of a matrix, and memory that has the keys of V innermost."""
    text = SMALL.replace("LENGTH = 256", "LENGTH = 128, KEYS = 192").replace("each j in LENGTH", "each j in KEYS")
    for name, dims in (("Q", "LENGTH, HEADS"), ("K", "KEYS, HEADS"), ("O", "LENGTH, HEADS")):
        text = text.replace(f"{name} : bf16[BATCH, HEADS, LENGTH", f"{name} : bf16[BATCH, {dims}")
    text = text.replace("V : bf16[BATCH, HEADS, LENGTH, D]", "V : bf16[BATCH, HEADS, D, KEYS]")
    for tensor, axis in ("Qq", "Kj", "Oq"):
        text = text.replace(f"{tensor}[b, h, {axis}]", f"{tensor}[b, {axis}, h]")
    build = built(spec_of(text.replace("@ V[b, h, j]", "@ V[b, h, D, j].T")))
    assert not [ring for ring in build.spec.layout.moving if ring.turned]
    right(build)


# ---------------------------------------------------------------- masks and tails

CAUSAL = (ROOT / "specs/attention/attention_causal.tk").read_text(encoding="utf-8")


def sized(text: str, **sizes: int) -> str:
    """The text with other sizes of dimensions."""
    for name, size in sizes.items():
        text, count = re.subn(rf"\b{name} = \d+", f"{name} = {size}", text)
        assert count == 1
    return text


def right(build: Build, orders: int = 3) -> None:
    for order, kind in trials(orders):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize("length", [1, 63, 65, 127, 300])
def test_causal_attention_of_lengths_that_no_tile_divides(length: int) -> None:
    right(built(spec_of(sized(CAUSAL, BATCH=1, HEADS=2, KV_HEADS=1, LENGTH=length, D=64))))


@pytest.mark.parametrize("keys", [1, 63, 65, 127, 200])
def test_keys_of_lengths_that_no_tile_divides(keys: int) -> None:
    text = SMALL.replace("LENGTH = 256", f"LENGTH = 100, KEYS = {keys}").replace("each j in LENGTH", "each j in KEYS")
    for name in "KV":
        text = text.replace(f"{name} : bf16[BATCH, HEADS, LENGTH", f"{name} : bf16[BATCH, HEADS, KEYS")
    right(built(spec_of(text, "gfx950")))


def test_as_many_heads_of_keys_as_of_queries() -> None:
    """An index that is divided by 1 stands for one that is not."""
    right(built(spec_of(sized(CAUSAL, BATCH=1, HEADS=2, KV_HEADS=2, LENGTH=65, D=32))), 2)


def test_what_lies_beyond_the_end_reaches_nothing() -> None:
    """Keys and values after the last are not read, whatever stands there: the tensors of a longer launch."""
    spec = spec_of(sized(CAUSAL, BATCH=1, HEADS=2, KV_HEADS=1, LENGTH=70, D=64))
    masks = [line for line in spec.text.splitlines() if line.strip().startswith("if (!(")]
    assert [line.split("  //")[0].strip() for line in masks] == [
        "if (!(first_of_wave >= j_0 + TILE_j - 1)) {", *["if (!(j_0 + TILE_j - 1 < 70)) {"] * 2
    ]  # fmt: skip


def test_blocks_of_a_causal_launch_are_compared_with_what_they_visit() -> None:
    spec = tkgen.load(ROOT / "specs/attention/attention_causal.tk")
    assert isinstance(spec, Spec)
    assert not run(spec.build(), blocks=[0, 15, 200]).failure


# ---------------------------------------------------------------- windows

WINDOW = (ROOT / "specs/attention/attention_window.tk").read_text(encoding="utf-8")


def windowed(length: int, window: int, **sizes: int) -> str:
    return sized(WINDOW, **{"BATCH": 1, "HEADS": 1, "LENGTH": length, "D": 32, "WINDOW": window} | sizes)


@pytest.mark.parametrize(
    ("length", "window"), [(1, 1), (63, 5), (65, 64), (127, 128), (300, 1), (300, 65), (257, 1000)]
)
def test_windows_of_lengths_that_no_tile_divides(length: int, window: int) -> None:
    right(built(spec_of(windowed(length, window), "gfx950")))


def test_blocks_of_keys_before_the_window_are_not_visited() -> None:
    """Whatever stands in them: what a block does not visit holds NaN."""
    spec = tkgen.load(ROOT / "specs/attention/attention_window.tk")
    assert isinstance(spec, Spec)
    lines = [line.split("  //")[0].strip() for line in spec.text.splitlines()]
    assert "const int first_step = max(q_0 - 511, 0) / TILE_j;" in lines
    conditions = [line for line in lines if line.startswith("if (!(") and "2000" not in line]
    assert conditions == [  # one for each side of the window: no tile at hand hangs over both
        "if (!(first_of_wave >= j_0 + TILE_j - 1)) {", "if (!(first_of_wave + COLS - 1 - (j_0) < 512)) {",
    ]  # fmt: skip
    assert not run(spec.build(), blocks=[0, 15, 200]).failure


@pytest.mark.parametrize(
    "ends", ["from q", "from q + 40", "to q - 20", "to q - 200", "from q - 100 to q - 30", "from q + 1 to q + 60"]
)
def test_bounds_are_moved_either_way(ends: str) -> None:
    """The equations hold without a mask, too, for keys that are not visited; a block may visit none."""
    text = sized(SMALL, LENGTH=300, D=32).replace("each j in LENGTH by 64", f"each j in LENGTH by 64 {ends}")
    text = text.replace("o / l", "where(l > 0, o / l, 0)")
    build = built(spec_of(text))
    right(build)
    assert not run(build, blocks=[0, 2]).failure


@pytest.mark.parametrize("keys", [100, 200, 333])
def test_causal_attention_whose_last_query_sees_all_keys(keys: int) -> None:
    text = sized(SMALL, D=32).replace("LENGTH = 256", f"LENGTH = 100, KEYS = {keys}")
    text = text.replace("each j in LENGTH by 64", "each j in KEYS by 64 to q + KEYS - LENGTH")
    text = text.replace("    n = max", "    s = where(q + (KEYS - LENGTH) >= j, s, -inf)\n    n = max")
    for name in "KV":
        text = text.replace(f"{name} : bf16[BATCH, HEADS, LENGTH", f"{name} : bf16[BATCH, HEADS, KEYS")
    spec = spec_of(text)
    right(built(spec))


# ---------------------------------------------------------------- conditions

LAZY = sized(
    (ROOT / "specs/attention/attention_lazy.tk").read_text(encoding="utf-8"), BATCH=1, HEADS=1, LENGTH=256, D=64
)


@pytest.mark.parametrize("target", TARGETS)
def test_waves_decide_together_whether_sums_are_rescaled(target: str) -> None:
    """As the equations say, to the bit of a rounding: each block decides for all of its tile."""
    build = built(spec_of(LAZY, target))
    right(build, 5)


def test_a_rescaling_that_one_row_asks_for_and_one_that_none_asks_for() -> None:
    """Keys that grow: a block whose queries meet a larger one rescales, the other does not; both are right."""
    build = built(spec_of(LAZY))
    q, k, v = (torch.randn(1, 1, 256, 64, generator=torch.Generator().manual_seed(n)) for n in range(3))
    q[0, 0, 128:] *= 0.01
    k[0, 0, 200] *= 30
    tensors = {"Q": q.bfloat16(), "K": k.bfloat16(), "V": v.bfloat16()}
    program = build.spec.program
    scalars = {"scale": program.scalars[0].default or 0.0}
    launch = build.spec.launch()
    made = {}
    for block in (0, 1):
        outputs, outcome = emulate(build, launch, tensors, scalars, blocks=[block])
        assert not outcome.findings
        made[block] = outcome.instructions
        meant = evaluate(program.kernel, tensors, scalars)["O"]
        rows = slice(128 * block, 128 * block + 128)
        found = outputs["O"].double()[0, 0, rows]
        assert ((found - meant.value[0, 0, rows]).abs() <= meant.bound[0, 0, rows]).all()
    assert made[0] > made[1]


@pytest.mark.parametrize("change", ["n - m > 0", "n - m > 1000", "n > m", "s > 8"])
def test_other_conditions(change: str) -> None:
    right(built(spec_of(LAZY.replace("n - m > 8", change))))


def test_votes_have_a_ring_of_their_own() -> None:
    spec = spec_of(LAZY)
    assert barriers(spec.schedule.tiles.body) == 2
    votes = [s for s in spec.schedule.tiles.body if isinstance(s, Vote)]
    assert [vote.to.name for vote in votes] == ["ring 2"] and spec.layout.rings == (2, 2, 2)
    without = spec.schedule.with_ops(Part.BODY, (s for s in spec.schedule.ops(Part.BODY) if not isinstance(s, Vote)))
    assert unlike(spec.layout, without) is not None


# ---------------------------------------------------------------- the schedule


@pytest.mark.parametrize(("buffers", "meetings"), [(1, 2), (2, 1), (3, 1)])
def test_waves_meet_as_rarely_as_the_rings_allow(buffers: int, meetings: int) -> None:
    assert barriers(spec_of(changed(SMALL, buffers=f"buffers {buffers}")).schedule.tiles.body) == meetings


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_no_meeting_can_be_left_out(buffers: int) -> None:
    spec = spec_of(changed(SMALL, buffers=f"buffers {buffers}"))
    found, machine = spec.schedule, spec.target.synchronisation
    assert unproven(spec.layout, found, machine) is None
    meetings = [without for _, step, without in left_out(found) if isinstance(step, Barrier)]
    assert isinstance(found.before[-1], Barrier) and len(meetings) == 1 + barriers(found.tiles.body)
    assert all(unproven(spec.layout, without, machine) is not None for without in meetings)


def test_what_is_stored_is_compared_with_the_equations() -> None:
    spec = spec_of(SMALL)
    m, found = spec.layout, spec.schedule
    assert unlike(m, found) is None
    assert unlike(m, with_each(found, lambda s: write(m, ring_of(s), 0) if isinstance(s, Write) else s)) is not None
    assert unlike(m, with_each(found, lambda s: bring(m, ring_of(s), 2) if isinstance(s, Fetch) else s)) is not None
    body = found.ops(Part.BODY)
    for n, step in enumerate(body):  # a sum that is added to twice is wrong, and stands in registers once
        if isinstance(step, Equations):
            twice = unlike(m, found.with_ops(Part.BODY, (*body[:n], step, *body[n:])))
            assert twice is not None and twice.endswith("is executed 2 times in an iteration")


def test_steps_are_the_same_each_time() -> None:
    spec = spec_of(SMALL)
    assert steps(spec.layout, spec.target.synchronisation) == spec.schedule


# ---------------------------------------------------------------- registers

WIDE = ATTENTION.replace("D = 128", "D = 256")


@pytest.mark.parametrize(
    ("tile", "waves", "step", "need", "most", "largest"),
    [(256, 8, 32, 290, "2 waves on a SIMD leave it 256", "`o`: 128; `Q`, which stays: 64; rows of `K`"),
     (256, 4, 32, 516, "1 wave on a SIMD leaves it 512", "`o`: 256; `Q`, which stays: 128; rows of `K`")],
)  # fmt: skip
def test_tiles_that_must_spill_are_refused(
    tile: int, waves: int, step: int, need: int, most: str, largest: str
) -> None:
    """And the compiler does spill, where it is let."""
    text = WIDE.replace("LENGTH by 128", f"LENGTH by {tile}").replace("waves 4", f"waves {waves}")
    text = text.replace("by 64\n", f"by {step}\n")
    with pytest.raises(SpecError) as caught:
        spec_of(text).check()
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E403", f"a wave needs at least {need} registers, {most}")
    assert found.notes[0].startswith(f"of each lane: {largest} read of LDS: 64;")
    assert found.primary is not None and found.primary.span.text == f"waves {waves} along q"
    allowed = spec_of(text.replace("  registers Q\n", "  registers Q\n  allow spills\n"))
    assert allowed.check().build(machine_check=False).resources.vgpr_spills


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("old", "new", "message", "underlined"),
    [
        ("each j in LENGTH by 64", "each j in LENGTH by 64 to b",
         "`to b` is not on the axis that the waves divide", "j"),
        ("each j in LENGTH by 64", "each j in LENGTH by 64 from b - 2 to q",
         "`from b - 2` is not on the axis that the waves divide", "j"),
        ("shared K, V", "shared K", "all waves multiply by `V`, which must go through LDS", None),
        ("V : bf16[BATCH, HEADS, LENGTH, D]\n", "V : f32[BATCH, HEADS, LENGTH, D]\n", "a product of f32", None),
        ("waves 4", "waves 16", "16 waves cannot divide a tile of 128 in parts of 16", "waves 16 along q"),
        ("buffers 2", "buffers 2 via direct",
         "loads from global memory to LDS move 4 bytes per lane on gfx942, but tiles are made of chunks of 16", None),
        ("  registers Q\n", "  schedule auto\n", "fused matmuls have no schedule `auto`", "schedule auto"),
        ("buffers 2", "buffers 1\n  schedule interleave",
         "`K` is read an iteration ahead: it needs 2 buffers and no other use", "schedule interleave"),
        ("    m = n\n", "    when any(n > 5)\n      m = n\n  schedule interleave\n",
         "the first product is computed an iteration ahead: it must multiply a loaded operand and start a sum, and the "
         "loop must have no `when any`", "schedule interleave"),
        ("buffers 2", "buffers 5", "the tiles need 81920 bytes of LDS, but a block on gfx942 has 65536", None),
        ("D = 64", "D = 40", "40 along `D` is not a multiple of 16", None),
        ("registers Q", "registers K", "`K` goes through LDS, and to registers directly", None),
        ("    m = n\n", "    m = n\n    when any(r < 0.5)\n      l = rowsum(p)\n",
         "products and reductions are not allowed under `when any`", None),
        ("  O[b", "  when any(l > 5)\n    o = o * 2\n  O[b",
         "`when any` is supported only in the loop of the products", None),
        ("    m = n\n", "    m = n\n    when any(scale > 2)\n      l = l * 2\n",
         "a condition without `q` is the same for all tiles", None),
    ],
)  # fmt: skip
def test_what_has_no_schedule_is_refused_at_its_place(old: str, new: str, message: str, underlined: str | None) -> None:
    text = SMALL.replace(old, new)
    assert text != SMALL
    if "f32[" in new:
        text = text.replace("bf16(p)", "p")
    with pytest.raises(SpecError) as caught:
        spec_of(text).check()
    first = caught.value.diagnostics[0]
    assert first.code == ("E202" if new == "registers K" else "E230") and first.message == message
    assert first.primary is not None
    assert underlined is None or first.primary.span.text == underlined


def test_a_target_that_drops_small_numbers_takes_no_computed_f16() -> None:
    with pytest.raises(SpecError, match="subnormal"):
        spec_of(changed(SMALL, dtype="f16"), "gfx90a").check()
    spec_of(SMALL, "gfx90a").check()


@pytest.mark.parametrize("name", ["attention", "attention_lazy", "attention_causal", "attention_direct"])
def test_the_graph_has_what_operations_take_of_others(name: str) -> None:
    """Moved tiles come through LDS, covered by a barrier of the iteration; results of `when any` are used after it."""
    spec = tkgen.load(ROOT / "specs/attention" / f"{name}.tk")
    assert isinstance(spec, Spec)
    graph, ops = spec.graph, list(walk(spec.layout.kernel.body))
    edges = [(ops[a], ops[b], data["dependency"], data["barrier"]) for a, b, data in graph.edges(data=True)]
    through = {a.source.tensor.name for a, _, d, _ in edges if d.medium == "lds" and isinstance(a, Load)}
    assert through == {"K", "V"}
    votes = [b for _, b, d, _ in edges if d.medium == "lds" and isinstance(b, When)]
    assert len(votes) == (name == "attention_lazy")
    met = range(barriers(spec.schedule.tiles.body))
    assert all((barrier in met) == (d.medium == "lds") for _, _, d, barrier in edges)
    for number, op in enumerate(ops):
        taken = {d.operand for _, _, d in graph.in_edges(number, data="dependency") if d.distance == 0}
        assert len(taken) >= len(set(reads(op))), op
    carried = {d.operand for *_, d, _ in edges if d.distance == 1}
    assert carried == {"m", "l", "o"} or carried == {"n", "l", "o"}
    update = next((op.chosen[1].update for op in ops if isinstance(op, When)), None)
    assert update is None or any(update in writes(a) and not isinstance(b, When) for a, b, *_ in edges)
    result = CliRunner().invoke(app, ["graph", str(spec.path), "--json"])
    assert result.exit_code == 0 and len(json.loads(result.stdout)["operations"]) == len(ops)
