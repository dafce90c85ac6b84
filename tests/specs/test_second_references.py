"""tkgen's reference of every shipped spec beside a second one, which knows nothing of tkgen: `second_references`.

What `tkgen run` and the tests compare kernels with comes from a spec's equations, as the kernel itself does. So the two
may share a mistake. Here both references, and of a sample (`-m slow`: all) what machine code or model computes, are
compared with plain torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import second_references as second
import torch
from sampling import sample
from second_references import FITTING, LARGEST_FP8, REFERENCES, Answer
from torch import Tensor

from tkgen import mx, packing
from tkgen.api import load
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute import modelled_suite
from tkgen.execute.cases import size_cases
from tkgen.execute.compare import Inputs, random_inputs, references
from tkgen.execute.launch import computed
from tkgen.execute.modelled import in_order
from tkgen.ir import meaning, rounding
from tkgen.ir.equations import Axis
from tkgen.ir.functions.definitions import dropout
from tkgen.ir.meaning import Tile
from tkgen.ir.rounding import Bounded
from tkgen.ir.sizing import Sizing

SPECS = Path(__file__).parents[2] / "specs"
NAMES = sorted(path.relative_to(SPECS).with_suffix("").as_posix() for path in SPECS.rglob("*.tk"))
SCALARS = {"alpha": 1.25, "beta": -0.5, "s": 0.75, "out": 0.0625, "eps": 1e-3, "dropped": 0.25, "seed": 7.0}
# One of each kind of kernel and of reference; `-m slow` runs all.
EXECUTED = [
    "at_bt", "rows/rmsnorm", "attention/attention_mqa", "low_precision/w4_decode", "quantise/mxfp4_rows",
    "groups/grouped_weights", "hopper/h100_lcf", "hopper/h100_attention_causal", "hopper/h100_rotary",
]  # fmt: skip
OF_F32 = 2.0**-20  # of constants and scalars that one reference has in f32, the other in f64
COMPUTED = 2.0**-13  # of the largest number: sums of many products and functions in f32
# Decoders of what memory holds where torch has bytes; unit roundoff and least number of the formats of outputs.
PACKED = {"e2m1": second.e2m1, "e2m3": second.e2m3, "e3m2": second.e3m2}
ROUNDOFF = {
    "f32": (2.0**-24, 0.0), "bf16": (2.0**-8, 0.0), "f16": (2.0**-11, 2.0**-24), "i8": (0.0, 1.0),
    "e4m3fn": (2.0**-4, 2.0**-9), "e4m3fnuz": (2.0**-4, 2.0**-10), "e2m1": (2.0**-2, 0.5), "e2m3": (2.0**-4, 0.125),
    "e8m0": (0.0, 0.0),
}  # fmt: skip
SOON = 2**26  # operations of a product, or elements
FEWER = {"BATCH": 2, "HEADS": 4, "KV_HEADS": 2}  # matrices of a batch, where the sizes of a regression leave them
LARGEST = {"i8": 127.0, "e4m3fn": 448.0, "e4m3fnuz": 240.0, "e2m1": 6.0, "e2m3": 7.5}


@dataclass(frozen=True)
class Case:
    """A spec at small sizes, with inputs, tkgen's reference and the second one."""

    spec: Any
    launch: Sizing
    inputs: dict[str, Tensor]
    scalars: dict[str, float]
    first: Mapping[str, tuple[Tensor, Tensor]]
    second: Mapping[str, Answer]
    formats: Mapping[str, str]


def sizes(name: str) -> tuple[Any, list[dict[str, int]]]:
    """The spec, and sizes of a regression, of which it may refuse some; batches of no matrices are left out."""
    spec = load(SPECS / f"{name}.tk")
    found = modelled_suite.sizes(spec) if spec.target.name == "sm_90a" else size_cases(spec)
    fewer = {d.name: FEWER[d.name] for d in spec.program.dims if d.name in FEWER}
    return spec, [fewer | case for case in found if all(case.values())]


def sized(name: str, spec: Any, extents: Mapping[str, int]) -> Any:
    """The spec at these sizes; None where it refuses them."""
    static = {d.name: extents[d.name] for d in spec.program.dims if d.size is not None and d.name in extents}
    try:
        return load(SPECS / f"{name}.tk", static)
    except SpecError:
        return None


def admitted(name: str) -> list[tuple[Any, dict[str, int]]]:
    """The spec at each of the sizes that it admits."""
    spec, cases = sizes(name)
    found = [(sized(name, spec, case), case) for case in cases]
    return [(of, case) for of, case in found if of is not None]


def small(name: str) -> tuple[Any, dict[str, int]]:
    """At the last sizes that are soon computed: several blocks and iterations, with a rest where there may be one."""
    spec, cases = sizes(name)
    soon = (case for case in reversed(cases) if math.prod(case.values()) <= SOON)
    return next((of, case) for case in soon if (of := sized(name, spec, case)) is not None)


def tried(name: str, spec: Any, extents: Mapping[str, int], kind: Inputs, seed: int = 0) -> Case:
    """The spec at these sizes on random inputs, with both references."""
    launch = spec.launch({d.name: extents[d.name] for d in spec.program.dims if d.size is None})
    scalars = {s.name: SCALARS.get(s.name, s.default) for s in spec.program.scalars}
    functions = backend_of(spec.target.name).functions
    inputs = random_inputs(launch, seed, kind, functions)
    inputs = FITTING.get(name, lambda tensors, scalars: tensors)(inputs, scalars)
    first = references(launch, inputs, scalars, functions)
    largest = {LARGEST_FP8: 240.0 if spec.target.name == "gfx942" else 448.0}
    formats = {t.name: t.dtype.spelling for t in launch.written}
    declared = {t.name: launch.given(t) for t in launch.program.reads if t.declared}
    given = {n: x.reshape(declared[n]) if n in declared else x for n, x in inputs.items()}
    answers = REFERENCES[name](given, {**launch.extents, **scalars, **largest})
    for t in (t for t in launch.program.outputs if t.declared):
        answers[t.name] = replace(answers[t.name], value=answers[t.name].value.reshape(launch.shape(t)))
    assert {t.name for t in launch.program.outputs} <= answers.keys() <= first.keys()
    return Case(spec, launch, inputs, scalars, first, answers, formats)


def worst(found: Tensor, answer: Answer, allowed: Tensor) -> str:
    """The element that is furthest from the answer beyond what is allowed; empty where none is."""
    assert found.shape == answer.value.shape
    off = (found - answer.value).abs()
    same = (found == answer.value) | (found.isnan() & answer.value.isnan())
    wrong = ~same & ~(off <= allowed)
    if answer.where is not None:
        wrong &= answer.where
    if not wrong.any():
        return ""
    at = int(torch.where(wrong, off.nan_to_num(torch.inf), -1.0).argmax())
    values = (x.expand(found.shape).flatten()[at].item() for x in (found, answer.value, allowed))
    return "{} elements, the worst {:.6g} instead of {:.6g}, {:.3g} allowed".format(int(wrong.sum()), *values)


def allowed(answer: Answer, relative: float, of_largest: float, least: float = 0.0) -> Tensor:
    value = answer.value.nan_to_num(0.0, 0.0, 0.0).abs()
    most = value.max() if value.numel() else 0.0
    return relative * value + of_largest * most + least + answer.slack


def disagreements(made: Case) -> dict[str, str]:
    """Outputs of which tkgen's reference and the second one differ."""
    found = {
        name: worst(made.first[name][0].double(), answer, allowed(answer, OF_F32, 2.0**-30))
        for name, answer in made.second.items()
    }
    return {name: text for name, text in found.items() if text}


def wrong_outputs(made: Case, outputs: Mapping[str, Tensor]) -> dict[str, str]:
    """Outputs of a kernel that the second reference finds wrong."""
    found = {}
    for name, answer in made.second.items():
        form = made.formats[name]
        most = LARGEST.get(form, torch.inf)
        clamped = Answer(
            answer.value.clamp(-most, most) if most < torch.inf else answer.value, answer.slack, answer.where
        )
        numbers = PACKED[form](outputs[name]) if form in PACKED else second.number(outputs[name])
        relative, least = ROUNDOFF[form]
        found[name] = worst(numbers, clamped, allowed(clamped, 1.01 * relative, COMPUTED, 0.51 * least))
    return {name: text for name, text in found.items() if text}


def executed(made: Case) -> dict[str, Mapping[str, Tensor]]:
    """Results of the machine code on the emulator; for Hopper of the C++ on the CPU, and of the model."""
    made.spec.check()
    backend = backend_of(made.spec.target.name)
    if backend.interpreter is None:
        return {"emulator": computed(made.spec.build(), made.launch, made.inputs, made.scalars)}
    found = {}
    for name, executor in backend.executors.items():
        (order,) = executor.orders(1)
        found[name] = in_order(executor, made.spec, made.launch, made.inputs, made.scalars, order).outputs
    return found


def test_every_spec_has_a_second_reference() -> None:
    assert sorted(REFERENCES) == NAMES


def test_second_references_know_nothing_of_tkgen() -> None:
    assert (
        "import tkgen" not in Path(second.__file__).read_text()
        and "from tkgen" not in Path(second.__file__).read_text()
    )


def test_the_generator_of_dropout_has_the_answers_of_its_authors() -> None:
    """The known answers of Random123, for a counter and a key of zeros, and of ones."""
    ones = 0xFFFFFFFF
    assert second.philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert second.philox((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


@pytest.mark.parametrize("name", sample(NAMES, 2))
def test_the_reference_of_a_spec_is_what_torch_computes(name: str) -> None:
    made = tried(name, *small(name), Inputs.NORMAL)
    assert disagreements(made) == {}


def _right_factor_transposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake of square projections: the right factor is read along its other dimension."""
    contracted = rounding.contracted

    def other(a: Bounded, b: Bounded, *rest: Any) -> Bounded:
        return contracted(a, (b[0].mT, b[1]), *rest)

    monkeypatch.setattr(rounding, "contracted", other)


def _one_key_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask that compares with the next key."""
    coordinate = meaning._Evaluation.coordinate

    def other(self: meaning._Evaluation, axis: Axis) -> Tile:
        found = coordinate(self, axis)
        return replace(found, value=found.value + 1) if axis.name == "j" else found

    monkeypatch.setattr(meaning._Evaluation, "coordinate", other)


def _in_order() -> Tensor:
    """Weights of 4 bits that lie plainly where they are interleaved."""
    return torch.arange(packing.INTERLEAVED)


def _codes(codes: Tensor, name: str) -> Tensor:
    """Floats of 4 bits that are their codes."""
    return codes.float()


@pytest.mark.parametrize(
    ("name", "extents", "mistake"),
    [
        ("four_wave_abt", {"M": 128, "N": 128, "K": 128}, _right_factor_transposed),
        ("attention/attention_causal", {"LENGTH": 128, **FEWER}, _one_key_later),
        ("rows/rmsnorm", {"TOKENS": 4}, lambda patch: patch.setattr(dropout, "ROUNDS", 9)),
        ("low_precision/w4_decode", {"N": 64, "K": 256}, lambda patch: patch.setattr(packing, "_place", _in_order)),
        ("low_precision/mxfp4", {"M": 256, "N": 256, "K": 256}, lambda patch: patch.setattr(mx, "decode", _codes)),
    ],
)  # fmt: skip
def test_a_mistake_in_the_reference_of_the_equations_is_found(
    name: str, extents: dict[str, int], mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = sized(name, load(SPECS / f"{name}.tk"), extents)
    assert disagreements(tried(name, spec, extents, Inputs.NORMAL)) == {}
    mistake(monkeypatch)
    assert disagreements(tried(name, spec, extents, Inputs.NORMAL)) != {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Inputs))
@pytest.mark.parametrize("name", NAMES)
def test_the_reference_of_a_spec_is_what_torch_computes_at_all_sizes(name: str, kind: Inputs) -> None:
    found = admitted(name)
    assert len(found) > 1
    for seed, (spec, extents) in enumerate(found):
        assert disagreements(tried(name, spec, extents, kind, seed)) == {}, extents


@pytest.mark.parametrize(
    "name", [*EXECUTED, *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES if n not in EXECUTED)]
)
def test_what_a_spec_computes_is_what_torch_computes(name: str) -> None:
    spec, cases = sizes(name)
    made = tried(name, sized(name, spec, cases[0]), cases[0], Inputs.EXACT)
    for executor, outputs in executed(made).items():
        assert wrong_outputs(made, outputs) == {}, executor
