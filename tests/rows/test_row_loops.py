"""Rows that loops walk over: numbers, what they hand on across waves, what is refused, graph and prediction."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from mutating.rows import RowReferee, mutants, small
from sampling import sample
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run
from tkgen.machine_check.tile_sorts import launches
from tkgen.predict.throughput import Transfer
from tkgen.schedule.row_verifier import wrong
from tkgen.tile.ops import Barrier
from tkgen.tile.program import Advance, Loop, ops

SPECS = Path(__file__).parents[2] / "specs/rows"
SOFTMAX = """kernel walks
  dims ROWS = 5, D = {length}
  global X : bf16[ROWS, D]
  global Y : bf16[ROWS, D]
  global LSE : f32[ROWS]
  over r in ROWS by {rows}
  waves {waves}
  carry m : f32[r] = -inf, l : f32[r] = 0
  each j in D by {tile}
    n = max(m, rowmax(X[r, j]))
    l = l * exp(m - n) + rowsum(exp(X[r, j] - n))
    m = n
  each i in D by {tile}
    Y[r, i] = exp(X[r, i] - m) / l
  LSE[r] = m + log(l)
"""
SUMS = """kernel sums
  dims ROWS = {rows}, D = {length}
  global X : f32[ROWS, D]
  global W : bf16[D]
  global Y : f32[ROWS, D]
  scalar eps : f32 = 0.5
  over r in ROWS by 1
  waves 4
  each j in D by {tile}
    s = s + rowsum(X[r, j] * X[r, j])
  q = rsqrt(s + eps * 2)
  each i in D by {tile}
    t = t + rowsum(X[r, i] * q)
  each k in D by {tile}
    Y[r, k] = X[r, k] * q / (t * t + 1) * W[k]
"""
FADING = """kernel fading
  dims ROWS = {rows}, D = {length}
  global X : f32[ROWS, D]
  global Y : f32[ROWS]
  over r in ROWS by 1
  waves 4
  carry t : f32[r] = 0, u : f32[r] = -inf
  each j in D by {tile}
    s = s + rowsum(X[r, j])
    t = t / 2 + rowsum(X[r, j] * X[r, j])
  each i in D by {tile}
    u = max(u, rowmax(X[r, i] - t))
  Y[r] = s + t * u
"""
COLUMNS = """kernel columns
  dims ROWS = 70, D = 100
  global X : bf16[ROWS, D]
  global S : f32[D]
  over d in D by 32
  waves 2
  each r in ROWS by 16
    s = s + colsum(X[r, d])
  S[d] = s
"""
CAUSAL = """kernel causal
  dims N = 150
  global X : f32[N, N]
  global S : f32[N]
  over t in N by 8
  waves 2 along t
  each j in N by 32 to t
    s = s + rowsum(where(t >= j, X[t, j], 0))
  S[t] = s
"""
WINDOW = """kernel window
  dims N = 210
  global X : f32[N, N]
  global S : f32[N]
  over t in N by 8
  waves 2 along t
  each j in N by 32 from t - 40 to t + 3
    s = s + rowsum(where(t - 40 <= j and t + 3 >= j, X[t, j], 0))
  S[t] = s
"""
EXCHANGED = """kernel exchanged
  dims ROWS = 3, D = 96
  global X : f32[ROWS, D]
  global S : f32[ROWS]
  over r in ROWS by 1
  waves 1
  carry a : f32[r] = 1, b : f32[r] = 100
  each j in D by 32
    was = a
    a = b + rowmax(X[r, j])
    b = was
  S[r] = a - 2 * b
"""
IN_PLACE = """kernel doubled
  dims ROWS = 3, D = 700
  global X : bf16[ROWS, D]
  over r in ROWS by 2
  waves 2
  each j in D by 256
    X[r, j] = 2 * X[r, j]
"""


def spec_of(text: str, **sizes: int | None) -> Spec:
    spec = load(text, sizes)
    assert isinstance(spec, Spec)
    return spec


def small_softmax() -> Spec:
    """A row that the whole block shares, so that each walk of the first loop meets."""
    return spec_of(SOFTMAX.format(length=1300, rows=1, waves=2, tile=512))


@pytest.mark.parametrize("text", sample([
    SOFTMAX.format(length=1300, rows=1, waves=2, tile=512),   # waves share a row
    SOFTMAX.format(length=1300, rows=2, waves=4, tile=128),
    SOFTMAX.format(length=64, rows=4, waves=1, tile=64),      # one pass
    SOFTMAX.format(length=1, rows=4, waves=2, tile=256),
    SUMS.format(rows=2, length=3000, tile=1000),              # one exchange a pass, three passes: halves change places
    SUMS.format(rows=2, length=4000, tile=1000),
    SUMS.format(rows=3, length=4097, tile=2048),
    COLUMNS, CAUSAL, WINDOW, EXCHANGED, IN_PLACE,
    IN_PLACE.replace("by 2\n", "by 3\n").replace("waves 2", "waves 1").replace("by 256", "by 64"),  # rows of a lane
], 2))  # fmt: skip
def test_numbers_are_right_in_many_orders(text: str) -> None:
    build = spec_of(text).build().check()
    assert build.machine_check.outcome == "right"
    assert build.resources.clean
    for kind in Inputs:
        assert run(build, kind=kind).ok
    for order in interleavings(6):
        tried = run(build, order=order)
        assert tried.ok, f"{order}: {tried.failure}"


def test_lengths_that_only_run_time_knows() -> None:
    spec = spec_of(SUMS.format(rows=2, length="dynamic", tile=1000))
    assert [w.launch.extents["D"] for w in launches(spec)] == [2999, 1001, 1000, 1]
    assert [sizes["D"] for sizes in spec.size_cases()] == [1000, 1, 1001, 2999]
    build = spec.build().check()
    for length in (1, 999, 2001, 5000):
        tried = run(build, extents={"D": length})
        assert tried.ok, tried.failure


def test_what_no_pass_changes_is_loaded_once() -> None:
    text = SUMS.format(rows=2, length=3000, tile=1000)
    weighted = text.replace("  dims ", "  global V : f32[ROWS]\n  dims ").replace("(X[r, j] * X", "(V[r] * X[r, j] * X")
    source = spec_of(weighted).text
    assert source.index("V_r[i] = tk::load") < source.index("for (int j_0")


def test_a_number_of_the_block_is_loaded_once_for_the_loop_and_what_follows() -> None:
    """A cross entropy that ignores a label reads it in the loop and after it; the second load had no declaration."""
    text = """kernel losses
  dims T = 3, V = 700
  global X : bf16[T, V]
  global LABEL : i32[T]
  global LOSS : f32[T]
  over t in T
  carry m : f32 = -3.4e38, l : f32 = 0, hit : f32 = 0
  each v in V by 512
    x = X[t, v]
    n = max(m, rowmax(x))
    l = l * exp(m - n) + rowsum(exp(x - n))
    hit = hit + rowsum(where(LABEL[t] == v, x, 0))
    m = n
  LOSS[t] = where(LABEL[t] == 1, 0, m + log(l) - hit)
"""
    for target in ("gfx942", "sm_90a"):
        source = load(text, target=target).check().source.text
        assert source.count("LABEL_e") == 3 and source.count("float LABEL_e") == 1
    assert run(load(text).check().build()).ok


def test_two_loops_divide_by_what_was_loaded_for_a_row() -> None:
    """The reciprocal of a temperature was declared in the first loop, which the second one cannot see."""
    text = """kernel softmax_temperature
  dims ROWS = 3, V = 1300
  global X : f32[ROWS, V]
  global T : f32[ROWS]
  global P : f32[ROWS, V]
  over r in ROWS by 1
  carry m : f32[r] = -3.4e38, l : f32[r] = 0
  each j in V by 512
    x = X[r, j] / T[r]
    n = max(m, rowmax(x))
    l = l * exp(m - n) + rowsum(exp(x - n))
    m = n
  each i in V by 512
    P[r, i] = exp(X[r, i] / T[r] - m) / l
"""
    tried = run(load(text).check().build())
    assert tried.ok, tried.failure


def test_loops_repeat_their_sweeps_alone() -> None:
    first, second = (step for step in small_softmax().layout.steps if isinstance(step, Loop))
    assert sum(isinstance(step, Barrier) for step in first.body) == 2
    assert not any(isinstance(step, Barrier) for step in second.body)
    assert len([op for op in ops(small_softmax().layout.steps) if not isinstance(op, Advance)]) == 11


def test_no_wrong_mutant_of_a_loop_is_accepted() -> None:
    verdicts = set()
    for text in (SOFTMAX.format(length=1300, rows=1, waves=2, tile=512), SUMS.format(rows=1, length=3000, tile=1000)):
        spec = spec_of(text)
        referee = RowReferee(spec, interleavings(2))
        assert not referee.fault(spec.layout)
        changed = (m for m in mutants(spec.layout) if referee.changes(m.layout))
        for mutant in islice(changed, 0, None, 20):
            rules, fault = referee.rejected(mutant.layout), referee.fault(mutant.layout)
            assert rules or not fault, f"{mutant.kind}: {mutant.what}: accepted, but {fault}"
            verdicts.add(bool(rules))
    assert verdicts == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long_softmax", "norm_gradient"])
def test_no_wrong_mutant_of_the_specs_with_loops_is_accepted(name: str) -> None:
    for _, spec in small(SPECS / f"{name}.tk"):
        referee = RowReferee(spec, interleavings(2))
        for mutant in (m for m in mutants(spec.layout) if referee.changes(m.layout)):
            fault = referee.fault(mutant.layout)
            assert not fault or referee.rejected(mutant.layout), f"{mutant.kind}: {mutant.what}: {fault}"


def rules(spec: Spec, kind: str, what: str) -> list[set[str]]:
    """The rules that mutants of a kind break, of each."""
    found = [m for m in mutants(spec.layout) if m.kind == kind and what in m.what]
    return [{rule for rule, _ in wrong(m.layout, spec.target)} for m in found]


def test_every_rule_finds_what_breaks_it() -> None:
    spec = small_softmax()
    assert not [*wrong(spec.layout, spec.target)]
    assert rules(spec, "drop barrier", "loop at 0") == [{"races"}] * 2
    assert (
        rules(spec, "drop shared store", "loop at 0") == rules(spec, "drop shared load", "loop at 0") == [{"steps"}] * 2
    )
    assert rules(spec, "other half", "and its load of the loop") == [{"races"}] * 2
    assert rules(spec, "drop loop", "loop at 0") == rules(spec, "drop loop", "loop at 1") == [{"steps"}]
    odd = spec_of(FADING.format(rows=1, length=3000, tile=1000))
    assert rules(odd, "drop barrier", "loop at 0") == [{"races"}]
    assert rules(odd, "other half", "and its load of the loop at 0") == [{"races"}]


def test_every_rule_finds_what_breaks_the_sums_that_lanes_keep() -> None:
    spec = spec_of(FADING.format(rows=1, length=3000, tile=1000))
    assert not [*wrong(spec.layout, spec.target)]
    assert [(len(s.reduces), len(s.parts), len(s.whole)) for s in spec.layout.sweeps] == [
        (1, 1, 0), (0, 0, 0), (0, 0, 1), (0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0),
    ]  # fmt: skip
    assert rules(spec, "drop barrier", "barrier at") == [{"races"}] * 3
    assert rules(spec, "drop shared store", "half 0, at") == [{"steps"}] * 3
    for kind, part in (("drop operation", "parts"), ("drop operation", "whole"), ("move operation", "whole")):
        found = rules(spec, kind, f"of the {part}")
        assert found and all("sweeps" in each for each in found), (kind, part)


def test_what_a_loop_only_adds_up_is_handed_on_once_behind_it() -> None:
    def meetings(equation: str) -> tuple[int, int]:
        """In an iteration of the loop, and after it."""
        spec = spec_of(f"""kernel kept
  dims ROWS = 3, D = 3000
  global X : f32[ROWS, D]
  global Y : f32[ROWS]
  over r in ROWS by 1
  waves 4
  carry s : f32[r] = 1
  each j in D by 1000
    {equation}
  Y[r] = s
""")
        assert spec.layout.waves_of_row == 4
        (loop,) = [step for step in spec.layout.steps if isinstance(step, Loop)]
        return tuple(sum(isinstance(s, Barrier) for s in steps) for steps in (loop.body, spec.layout.steps))  # type: ignore

    for kept in ("s = s + rowsum(X[r, j])", "s = rowsum(X[r, j]) + s", "s = max(s, rowmax(X[r, j]))"):
        assert meetings(kept) == (0, 1), kept
    for used in ("s = s * 2 + rowsum(X[r, j])", "s = s + rowsum(X[r, j]) * 2", "s = s + rowsum(X[r, j] * s)",
                 "s = s + rowmax(X[r, j])", "s = s - rowsum(X[r, j])"):  # fmt: skip
        assert meetings(used) == (1, 0), used


def test_a_block_that_touches_more_than_the_referee_can_watch_runs_without_it() -> None:
    alone = COLUMNS.replace("waves 2", "waves 1")
    spec = spec_of(alone.replace("ROWS = 70", "ROWS = 50000"))
    assert not spec.launch().watched([0])
    tried = run(spec.build(), blocks=[0], kind=Inputs.NORMAL)
    assert tried.ok, tried.failure
    small = spec_of(alone)
    assert small.launch().watched([0])


def test_waves_that_load_parts_of_the_same_lines_go_on_together() -> None:
    """Each has 32 of the 64 bytes of a row: a barrier in each iteration, though they share no result in it."""
    loops = [next(s for s in spec_of(COLUMNS.replace("waves 2", waves)).layout.steps if isinstance(s, Loop))
             for waves in ("waves 2 along d", "waves 2", "waves 1")]  # fmt: skip
    assert [sum(isinstance(step, Barrier) for step in loop.body) for loop in loops] == [1, 0, 0]


def test_the_half_of_an_odd_loop_is_known_at_run_time_alone() -> None:
    assert "next_half ^= 1;" in spec_of(FADING.format(rows=1, length=3000, tile=1000)).text
    assert "next_half ^=" not in small_softmax().text


def test_the_graph_has_loops_and_what_they_hand_on() -> None:
    graph = small_softmax().graph
    names = [data["node"].op for _, data in graph.nodes(data=True)]
    assert names.count("each j") == 2  # both walk along the same tiles
    handed = {d["dependency"].operand for _, _, d in graph.edges(data=True) if d["dependency"].distance == 1}
    assert {name.partition(".")[2] or name for name in handed} == {"l", "n"}


def test_a_tensor_that_two_loops_read_moves_twice() -> None:
    build = small_softmax().build()
    assert Transfer.of(build).read_again_bytes == 5 * 1300 * 2


NESTED = """kernel nested
  dims ROWS = 5, D = 100, E = 20
  global X : f32[ROWS, D, E]
  global S : f32[ROWS]
  over r in ROWS by 1
  waves 1
  carry s : f32[r] = 0
  each j in D by 32
    each k in E by 4
      s = s + rowsum(rowsum(X[r, j, k]))
  S[r] = s
"""


COUNTED = """kernel counted
  dims ROWS = 5, D = dynamic
  global X : f32[ROWS, D]
  global S : f32[ROWS]
  over r in ROWS by 1
  carry s : f32[r] = 0
  each j in D by 32
    x = X[r, j]
    s = s + 1
  S[r] = s
"""
TURNED = """kernel turned
  dims ROWS = 5, D = dynamic
  global X : f32[ROWS]
  global W : f32[D]
  global S : f32[ROWS]
  over r in ROWS by 1
  S[r] = X[D - 1 - r]
"""


def changed(old: str, new: str) -> str:
    text = SOFTMAX.format(length=1300, rows=1, waves=2, tile=512)
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(("text", "message"), [
    (changed("each i in D by 512", "each i in D by 256"), "`i` is over other tiles than `j`"),
    (changed("each i in D by 512", "each i in D by 512 from r"), "`i` is over other tiles than `j`"),
    (changed("each j in D by 512", "each j in D by 512 from r"), "`i` is over other tiles than `j`"),
    (changed("LSE[r] = m +", "LSE[r] = m + rowsum(X[r]) +"), "a row of D elements is complete in registers next to "
                                                             "the loop"),
    (NESTED, "a loop along `k` is inside another one"),
    (COUNTED, "the size of `D` is known only at run time, but no tensor that counted loads or stores has"),
    (TURNED, "the size of `D` is known only at run time, but no tensor that turned loads or stores has"),
])  # fmt: skip
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        spec_of(text).check()
    (found, *_) = error.value.diagnostics
    assert found.code == "E406"
    assert message in found.message


@pytest.mark.slow
def test_a_launch_that_the_referee_cannot_watch_says_so() -> None:
    tried = run(load(SPECS / "norm_gradient.tk", {"TOKENS": 24000, "D": 999}).build(machine_check=False))
    assert not tried.ok
    assert "touches more memory than the referee can watch" in tried.failure


def test_a_harness_is_written_for_stores_that_some_passes_lack(tmp_path: Path) -> None:
    spec = tmp_path / "some.tk"
    spec.write_text(SOFTMAX.format(length=5, rows=4, tile=4, waves=1).replace("in D by 4\n", "in D by 4 to r\n"))
    result = CliRunner().invoke(app, ["build", str(spec), "--emit", "harness", "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert len(list((tmp_path / "out").glob("*_check.*"))) == 2  # what they say: tests/lower/test_harness_kinds.py


def test_functions_are_called_beside_the_locals_of_an_odd_loop() -> None:
    """A local variable once had the name of a function after `sin` (found by a drawn kernel)."""
    functions = " + ".join(f"{name}(X[r, i])" for name in ("sin", "cos", "exp", "silu", "gelu", "tanh", "abs"))
    text = FADING.format(rows=2, length=2500, tile=1000).replace(
        "max(u, rowmax(X[r, i] - t))", f"u + rowsum(({functions}) * t)"
    )
    tried = run(spec_of(text).build(), kind=Inputs.NORMAL)
    assert tried.ok, tried.failure


CENTRED = """kernel centred
  dims ROWS = 256, D = 128
  global X : f32[ROWS, D]
  global Y : f32[ROWS, D]
  over d in D by 64, q in ROWS by 16
  waves 4
  each r in ROWS by 16
    y = y + colsum(X[r, d])
  Y[q, d] = X[q, d] - y / 256
"""


def test_some_blocks_of_a_tensor_that_is_read_along_two_axes() -> None:
    """A block has all rows for the sums, and its own for the differences."""
    build = spec_of(CENTRED).build()
    assert run(build, blocks=[0, 17, 31]).ok
    other = spec_of(CENTRED.replace("X[q, d] - y", "X[q, d] + y"))
    assert not run(replace(build, spec=other), blocks=[17]).ok
