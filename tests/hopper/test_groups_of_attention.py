"""Fused matmuls of groups of rows on Hopper: sequences of any lengths in one tensor, the C++ on the CPU beside torch.

No tile sees rows of another sequence: those are NaN, and no row between sequences is written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
import torch
from nvcc import compiles
from sampling import sample
from test_launches import Recorder
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper import prepared
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.chain_lowering import tile_code
from tkgen.backends.hopper.chained import SOME, Code, constants, program
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.launch import described
from tkgen.backends.hopper.loop_schedule import MACHINE, shapes, wrong
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.backends.hopper.prepared import prepare
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order
from tkgen.proof.execution import Order
from tkgen.tile.unroll import unroll

SPEC = """kernel attention
  target sm_90a
  dims SEQUENCES = 5, OFFSETS = SEQUENCES + 1, HEADS = 2, TOTAL = {queries}, KEYS = {keys}, D = 64
  global FIRST : i32[OFFSETS]
{others}  global Q : bf16[TOTAL, HEADS, D]
  global K : bf16[{shape}, D]
  global V : bf16[{shape}, D]
  global B : f32[HEADS, TOTAL]
  global O : bf16[HEADS, TOTAL, D]
  global M : f32[HEADS, TOTAL]
  over b in SEQUENCES, h in HEADS, q in TOTAL within FIRST[b] by {rows}
  {clauses}
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in {loop} by 64{bounds}
    x = B[h, q] * Q[q, h] @ K[{key}].T{mask}
    n = max(m, rowmax(x))
    p = exp(x - n)
    r = exp(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[{key}]
    m = n
  O[h, q] = o / l
  M[h, q] = m + log(l)
"""
OTHER = "  global OTHER : i32[{count}]\n"
PLAIN = {"queries": "300", "keys": "400", "others": OTHER.format(count="OFFSETS"), "shape": "KEYS, HEADS",
         "rows": "128",
         "clauses": "", "loop": "KEYS within OTHER[b]", "bounds": "", "mask": "", "key": "j, h"}  # fmt: skip
OWN = {"others": "", "shape": "TOTAL, HEADS", "loop": "TOTAL within FIRST[b]"}
CAUSAL = {"bounds": " to q + length(j) - length(q)",
          "mask": "\n    x = where(q + length(j) - length(q) >= j, x, -inf)"}  # fmt: skip
WINDOW = {"bounds": " from q + length(j) - length(q) - 99 to q + length(j) - length(q)",
          "mask": CAUSAL["mask"] + "\n    x = where(q + length(j) - length(q) < j + 100, x, -inf)"}  # fmt: skip
KINDS: Mapping[str, Mapping[str, str]] = {
    "keys of their own": {},
    "the same rows": OWN | {"clauses": "remap reversed"},
    "causal": CAUSAL,
    "causal, the same rows": OWN | {"bounds": " to q", "mask": "\n    x = where(q >= j, x, -inf)", "rows": "64"},
    "window": WINDOW,
    "lengths": {"others": OTHER.format(count="SEQUENCES"), "shape": "SEQUENCES, HEADS, KEYS",
                "loop": "KEYS below OTHER[b]", "key": "b, h, j"},
    "dynamic": {"queries": "dynamic", "keys": "dynamic"} | CAUSAL,
}  # fmt: skip


@dataclass(frozen=True)
class Groups:
    """The offsets of sequences, of queries and of keys."""

    queries: Sequence[int]
    keys: Sequence[int]

    @property
    def lengths(self) -> list[int]:
        return [b - a for a, b in pairwise(self.keys)]


# A tile and more, one row, none; gaps before and behind; queries without keys, and fewer keys than queries.
MIXED = Groups([3, 133, 134, 134, 190, 262], [5, 100, 101, 170, 170, 390])
EVEN = Groups([0, 64, 128, 192, 256, 300], [0, 64, 192, 256, 320, 400])
LONE = Groups([0, 0, 0, 300, 300, 300], [0, 10, 20, 400, 400, 400])
CASES = [(kind, groups) for kind in KINDS for groups in (MIXED, EVEN, LONE)]
EARLY, LAST = Order(), Order("last", frozenset())


def loaded(kind: str) -> HopperSpec:
    spec = load(SPEC.format_map(PLAIN | dict(KINDS[kind]))).check()
    assert isinstance(spec, HopperSpec)
    return spec


@dataclass
class Case:
    """A kernel on groups: all that no sequence has is NaN."""

    kind: str
    groups: Groups
    inputs: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own, generator = self.kind.endswith("the same rows"), torch.Generator().manual_seed(0)
        self.keys = self.groups.queries if own else self.groups.keys
        shape = {"lengths": (5, 2, 400, 64)}.get(self.kind, (300 if own else 400, 2, 64))
        lengths = torch.tensor(self.groups.lengths, dtype=torch.int32)
        offsets = [torch.tensor(x, dtype=torch.int32) for x in (self.groups.queries, self.groups.keys)]
        made = {"Q": (300, 2, 64), "K": shape, "V": shape}
        self.inputs = {name: torch.randn(s, generator=generator).bfloat16() for name, s in made.items()}
        self.inputs["B"] = 0.2 * torch.rand(2, 300, generator=generator)
        self.inputs |= {"FIRST": offsets[0], "OTHER": lengths if self.kind == "lengths" else offsets[1]}
        if self.kind == "lengths":
            for b, length in enumerate(self.groups.lengths):
                for name in "KV":
                    self.inputs[name][b, :, length:] = torch.nan
            return
        for name in "KV":
            self.inputs[name][: self.keys[0]] = torch.nan
            self.inputs[name][self.keys[-1] :] = torch.nan

    def only(self, group: int) -> dict[str, Tensor]:
        """The inputs with NaN for all keys and values of other sequences."""
        found = {name: x.clone() for name, x in self.inputs.items()}
        for name in "KV":
            if self.kind == "lengths":
                found[name][[b for b in range(5) if b != group]] = torch.nan
            else:
                found[name][: self.keys[group]] = torch.nan
                found[name][self.keys[group + 1] :] = torch.nan
        return found

    def rows(self, group: int) -> slice:
        return slice(self.groups.queries[group], self.groups.queries[group + 1])

    def wanted(self, group: int) -> tuple[Tensor, Tensor]:
        """A sequence's outputs in f64: NaN and -inf of rows without any key."""
        t = {name: x.double() for name, x in self.inputs.items()}
        rows = self.rows(group)
        if self.kind == "lengths":
            k, v = (t[name][group, :, : self.groups.lengths[group]].transpose(0, 1) for name in "KV")
        else:
            k, v = (t[name][self.keys[group] : self.keys[group + 1]] for name in "KV")
        queries, keys = rows.stop - rows.start, len(k)
        scores = torch.einsum("qhd,jhd->hqj", t["Q"][rows], k) * t["B"][:, rows, None]
        row, column = torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)
        if "causal" in self.kind or self.kind in ("window", "dynamic"):
            scores = scores.masked_fill(column > row, -torch.inf)
        if self.kind == "window":
            scores = scores.masked_fill(row >= column + 100, -torch.inf)
        return torch.einsum("hqj,jhd->hqd", scores.softmax(-1), v), scores.logsumexp(-1)

    def faults(self, outputs: Mapping[str, Tensor], groups: Sequence[int]) -> list[str]:
        """The outputs that differ from torch."""
        found = []
        for group in groups:
            rows = self.rows(group)
            if rows.start == rows.stop:
                continue
            want, sums = self.wanted(group)
            masked = sums == -torch.inf  # no key at all: 0 / 0; or keys that the mask leaves out, on -3.4e38
            got, logs = outputs["O"][:, rows].double(), outputs["M"][:, rows].double()
            close = (got - want).abs() <= 0.03 + 0.02 * want.abs()
            if not (close | masked[..., None]).all() or not ((logs < -1e30) == masked).all():
                found.append(f"O of {group}")
            if not torch.allclose(logs[~masked], sums[~masked], atol=0.02, rtol=0.01):
                found.append(f"M of {group}")
        return found

    def between(self, outputs: Mapping[str, Tensor]) -> bool:
        """True if a row that no sequence has is written."""
        inside = torch.zeros(300, dtype=torch.bool)
        inside[self.groups.queries[0] : self.groups.queries[-1]] = True
        written = ~outputs["O"][:, ~inside].isnan().all(), ~outputs["M"][:, ~inside].isnan().all()
        return any(map(bool, written))


@pytest.mark.parametrize(("kind", "groups"), sample(CASES, 8, several=True))
def test_sequences_compute_what_torch_does(kind: str, groups: Groups) -> None:
    spec, case = loaded(kind), Case(kind, groups)
    launch = spec.launch({"TOTAL": 300, "KEYS": 400} if kind == "dynamic" else None)
    for order in (EARLY, LAST):
        made = run(spec, launch, case.inputs, {}, order, limit=60)
        assert not made.findings
        assert not case.faults(made.outputs, range(5))
        assert not case.between(made.outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_of_another_sequence_has_an_effect(kind: str) -> None:
    """Even where those rows are NaN, which 0 does not take out of a product."""
    spec, case = loaded(kind), Case(kind, MIXED)
    launch = spec.launch({"TOTAL": 300, "KEYS": 400} if kind == "dynamic" else None)
    for group in (0, 3, 4):
        made = run(spec, launch, case.only(group), {}, EARLY, limit=60)
        assert not made.findings and not case.faults(made.outputs, [group])


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_of_the_schedule_has_groups(kind: str) -> None:
    spec, case = loaded(kind), Case(kind, MIXED)
    launch = spec.launch({"TOTAL": 300, "KEYS": 400} if kind == "dynamic" else None)
    executor = next(e for name, e in HopperBackend().executors.items() if name == "model")
    (order,) = executor.orders(1)
    made = in_order(executor, spec, launch, case.inputs, {}, order)
    assert not made.findings and not case.faults(made.outputs, range(5))


def test_offsets_that_lie_write_nothing_outside() -> None:
    spec, case = loaded("keys of their own"), Case("keys of their own", MIXED)
    lying = torch.tensor([-70, 40, 20, 900, 100, 250], dtype=torch.int32)
    made = run(spec, spec.launch(), case.inputs | {"FIRST": lying, "OTHER": lying}, {}, EARLY, limit=60)
    assert not made.findings


MUTANTS = {
    "a tile's group": ("g.K, tk::group_coord{0, iteration, h_i, 0, j_first, j_length}",
                       "g.K, tk::group_coord{0, iteration, h_i, 0, q_first, j_length}"),
    "the end of keys": ("g.V, tk::group_coord{0, iteration, h_i, 0, j_first, j_length}",
                        "g.V, tk::group_coord{0, iteration, h_i, 0, j_first, j_length + 1}"),
    "the end of queries": ("q_i * CONSUMERS + consumer, 0, q_first, q_length});", 
                           "q_i * CONSUMERS + consumer, 0, q_first, q_length + 3});"),
    "rows that lanes store": (" && first_row + laneid() / 4 + 8 * r < q_length", ""),
    "rows that lanes load": ("q_first + (first_row", "(first_row"),
    "iterations of whole tiles alone": ("(j_length + KEYS - 1) / KEYS", "j_length / KEYS"),
    "the group of keys": ("j_walk.go(b_i);", "j_walk.go(b_i - 1);"),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_in_the_code_is_found(mutant: str) -> None:
    old, new = MUTANTS[mutant]
    spec, case = loaded("keys of their own"), Case("keys of their own", MIXED)
    text = spec.text
    assert old in text, text
    text = text.replace(old, new)
    found = []
    for group in (0, 4):
        made = run(spec, spec.launch(), case.only(group), {}, EARLY, text=text, limit=60)
        found += [*made.findings, *case.faults(made.outputs, [group])]
        found += ["between"] if case.between(made.outputs) else []
    assert found


def test_a_tile_without_iterations_is_proven() -> None:
    """It waits for nothing and brings nothing: one that did would leave a copy that nobody reads."""
    layout = loaded("causal").layout
    assert {s.passes for s in shapes(layout)} == {0, 1, 2, 3, 4}
    values = constants(2, 2, 1, 2)
    own = [{"first_iteration": 0, "iterations": 0}]
    assert wrong(unroll(program(Code(some=SOME)), MACHINE, values, own)) is None
    assert wrong(unroll(program(), MACHINE, values, own)) is not None


def test_the_place_of_a_tile_is_compared_with_the_equations() -> None:
    layout = loaded("keys of their own").layout
    code = tile_code(layout)
    assert wrong_chain(layout, code) is None
    for part in ("left", "right", "held", "out"):
        moved = getattr(code, part)
        for old, new in (("_first", "_first + 1"), ("_length", "_first")):
            assert old in moved.coord
            changed = replaced(code, part, moved.coord.replace(old, new))
            assert wrong_chain(layout, changed) is not None, (part, old)


def replaced(code: Code, part: str, coord: str) -> Code:
    return replace(code, **{part: replace(getattr(code, part), coord=coord)})


def test_a_map_of_groups_begins_as_many_rows_before_the_tensor_as_it_has() -> None:
    spec = loaded("lengths")
    boxes = spec.boxes
    assert boxes is not None
    k, q = torch.empty(5, 2, 400, 64, dtype=torch.bfloat16), torch.empty(300, 2, 64, dtype=torch.bfloat16)
    tensors = {t.name: t for t in spec.program.arguments}
    made = described(boxes, tensors["K"], k)
    assert made.sizes == (64, 400, 2, 5, 401) and made.strides == (128, 51200, 102400, 128)
    assert made.box == (64, 64, 1, 1, 1) and made.address == k.data_ptr() - 400 * 128 and made.before == 400 * 128
    made = described(boxes, tensors["Q"], q)
    assert made.sizes == (64, 2, 300, 1, 301) and made.strides[-1] == 256 and made.box == (64, 1, 64, 1, 1)


@compiles
def test_a_prepared_launch_moves_the_map_with_the_address() -> None:
    """The driver replaces the address of a map for other tensors: by one as far before the tensor as the first."""
    build, driver = loaded("the same rows").build(), Recorder()
    inputs = {name: x for name, x in Case("the same rows", MIXED).inputs.items() if name != "OTHER"}
    with prepared.simulated(driver):
        prepare(build, build.spec.launch(), inputs)(list(inputs.values()), ())
    names = [t.name for t in build.spec.program.arguments]
    for name, passed in zip(names, driver.launches[0].tensors, strict=True):
        if name in "QKVO":
            (address,) = struct.unpack_from("<Q", passed.map)
            assert address == passed.address - (300 * 128 if name == "O" else 300 * 256), name


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("causal", {"  shared": "  grid persistent(3)\n  shared"}, "may have no iteration of the loop"),
        ("the same rows",
         {" within FIRST[b] by 128": " by 64", "K[j, h]": "Q[j, h]", "  global K : bf16[TOTAL, HEADS, D]\n": "",
          "K, V": "Q, V", "O : bf16[": "O : bf16[SEQUENCES, ", "M : f32[": "M : f32[SEQUENCES, ", "O[h": "O[b, h",
          "M[h": "M[b, h"},
         "rows of a group, and of others"),
    ],
)  # fmt: skip
def test_what_groups_cannot_have_is_refused(kind: str, changes: Mapping[str, str], said: str) -> None:
    text = SPEC.format_map(PLAIN | dict(KINDS[kind]))
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(SpecError) as caught:
        load(text).check()
    assert said in str([d.message for d in caught.value.diagnostics])
