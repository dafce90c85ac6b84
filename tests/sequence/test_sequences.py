"""Several kernels in a spec: what each is given, what is between them, file, machine code, numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sampling import sample
from typer.testing import CliRunner

import tkgen
from tkgen.api import Spec, load, load_products
from tkgen.backends.cdna import kittens
from tkgen.backends.cdna.lower.reference import host_reference, torch_reference
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import unmet
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.execute.compare import random_inputs as product_inputs
from tkgen.execute.launch import run
from tkgen.ir.meaning import evaluate_all
from tkgen.ir.types import Tensor
from tkgen.sequence import SequenceBuild, SequenceSpec
from tkgen.sequence.program import meaning_of
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.isa import parse_asm

ROOT = Path(__file__).parents[2]
SPLIT = Path(__file__).parent / "split.tk"
ROWS = """sequence twice
dims ROWS = {rows}, D = 200
global X : f32[ROWS, D]
global T : bf16[ROWS, D]
global Y : f32[ROWS, D]
kernel first
  over r in ROWS by 4
  waves 1
  T[r] = X[r] / rowmax(abs(X[r]))
kernel second
  over r in ROWS by 8
  waves 2
  Y[r] = T[r] - rowmean(T[r])
"""


def sequence(path: Path | str, defines: Mapping[str, int | None] | None = None, target: str = "gfx942") -> SequenceSpec:
    spec = load(path, defines, target)
    assert isinstance(spec, SequenceSpec)
    return spec


def names(tensors: tuple[Tensor, ...]) -> list[str]:
    return [t.name for t in tensors]


def of_kinds(spec: SequenceSpec) -> tuple[list[str], list[str], list[str]]:
    p = spec.program
    return names(p.reads), names(p.between), names(p.outputs)


@pytest.fixture(scope="module")
def built() -> SequenceBuild:
    return sequence(SPLIT).build().check()


def test_each_kernel_has_what_it_needs_of_what_is_shared() -> None:
    spec = sequence(SPLIT)
    sums, finish = spec.program.kernels
    assert names(sums.tensors) == ["X", "W", "S"] and names(finish.tensors) == ["b", "S", "Y"]
    assert [d.name for d in finish.dims] == ["M", "N", "PARTS"]
    assert not sums.scalars and [s.name for s in finish.scalars] == ["scale"]
    assert not spec.diagnostics


def test_tensors_are_given_between_or_results() -> None:
    spec = sequence(SPLIT)
    assert of_kinds(spec) == (["X", "W", "b"], ["S"], ["Y"])
    in_place = ROWS.format(rows=8).replace("T[r] = X[r]", "X[r] = X[r]").replace("T[r] - rowmean(T[r])", "X[r] + 1")
    spec = sequence(in_place.replace("global T : bf16[ROWS, D]\n", ""))
    assert of_kinds(spec) == (["X"], [], ["X", "Y"])


def test_values_of_the_command_line_reach_the_kernels_that_have_the_name() -> None:
    spec = sequence(SPLIT, {"K": 32, "M": None})
    assert {d.name: d.size for d in spec.program.dims} == {"M": None, "N": 128, "K": 32, "PARTS": 3}
    with pytest.raises(SpecError) as caught:
        sequence(SPLIT, {"PART": 33})
    assert [d.code for d in caught.value.diagnostics] == ["E210"]


def test_what_takes_one_kernel_says_so() -> None:
    with pytest.raises(SpecError) as caught:
        load_products(SPLIT)
    assert [d.code for d in caught.value.diagnostics] == ["E231"]


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("kind", Inputs)
def test_numbers_are_those_of_the_kernels_in_order(built: SequenceBuild, kind: Inputs) -> None:
    tried = run(built, kind=kind, seed=3)
    assert tried.ok, tried.failure
    given = random_inputs(built.spec.launch(), seed=3, kind=kind)
    x, w = (given[name].double() for name in ("X", "W"))
    wanted = torch.nn.functional.gelu(0.5 * (x @ w.T) + given["b"].double())
    torch.testing.assert_close(tried.outputs["Y"].double(), wanted, rtol=2**-8, atol=1e-5)
    if kind is Inputs.EXACT:  # sums of parts are exact, and compared as such
        parts = torch.stack([x[:, at : at + 96] @ w[:, at : at + 96].T for at in (0, 96, 192)])
        assert torch.equal(tried.outputs["S"].double(), parts) and tried.comparisons["S"].bound == 0


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(
    "sizes",
    sample(
        [
            {"K": 1},  # one step, and parts with none
            {"K": 96, "PARTS": 3},  # one step each
            {"K": 95, "PARTS": 32},
            {"M": 65, "N": 131, "K": 321, "PARTS": 4},  # 11 steps in parts of three: one of them ragged
            {"M": 1, "N": 64, "K": 70, "PARTS": 1},
        ],
        2,
    ),
)
def test_sizes_that_do_not_divide(sizes: dict[str, int | None], target: str) -> None:
    build = sequence(SPLIT, sizes, target).build().check()
    assert all(k.resources.clean and k.machine_check.outcome == "right" for k in build.kernels)
    tried = run(build)
    assert tried.ok, tried.failure


def test_sizes_known_at_launch() -> None:
    build = sequence(SPLIT, {"M": None}).build().check()
    for m in (1, 64, 100):
        tried = run(build, extents={"M": m}, scalars={"scale": 2.0})
        assert tried.ok, tried.failure
        assert tried.sizes["M"] == m and tried.outputs["Y"].shape == (m, 128)


def test_kernels_of_rows_alone_hand_rounded_numbers_on() -> None:
    build = sequence(ROWS.format(rows=13)).build().check()
    for kind in Inputs:
        tried = run(build, kind=kind)
        assert tried.ok, tried.failure


@pytest.mark.parametrize(("number", "name"), [(0, "S"), (1, "Y")])
def test_a_kernel_that_computes_something_else_is_found(built: SequenceBuild, number: int, name: str) -> None:
    wrong = SPLIT.read_text().replace("= p\n", "= p * 2\n").replace("+ b[n]", "- b[n]")
    other = sequence(wrong).build().check()
    kernels = list(built.kernels)
    kernels[number] = other.kernels[number]
    tried = run(replace(built, kernels=tuple(kernels)))
    assert not tried.ok and tried.failure.startswith(f"{name}: ")


def test_errors_are_handed_on_from_kernel_to_kernel() -> None:
    """The bound of the first kernel's error is that of the second one's input: 16 exp(x), where exp(x) has an error."""
    spec = sequence("""sequence scaled
dims N = 8
global X : f32[N]
global T : f32[N]
global Y : f32[N]
kernel first
  over n in N by 8
  waves 1
  T[n] = exp(X[n])
kernel second
  over n in N by 8
  waves 1
  Y[n] = 16 * T[n]
""")
    x = torch.linspace(-3, 3, 8)
    found = evaluate_all([meaning_of(p) for p in spec.program.kernels], {"X": x})
    rounding = 2.0**-24 * 16 * x.double().exp()
    assert bool((found["T"].bound > 0).all())
    assert bool((found["Y"].bound >= 16 * (found["T"].bound - rounding / 16)).all())
    torch.testing.assert_close(found["Y"].value, 16 * x.double().exp(), rtol=1e-6, atol=0)


# ---------------------------------------------------------------- code


def test_the_file_of_all_kernels_has_the_machine_code_of_each(built: SequenceBuild) -> None:
    spec = built.spec
    whole = compile_device(
        spec.source.text,
        spec.target,
        built.kernels[0].compiler,
        include_dirs=[kittens.include_dir()],
        source_name="split.cpp",
    )
    assert whole.asm is not None
    together = [[str(i) for i in f.instructions] for f in parse_asm(whole.asm).values()]
    apart = [[str(i) for i in k.function.instructions] for k in built.kernels]
    assert [len(f) for f in together] == [len(f) for f in apart]


def test_lines_of_the_file_come_from_lines_of_the_spec(built: SequenceBuild) -> None:
    source = built.spec.source
    lines = source.text.split("\n")
    assert len(source.origins) == len(lines)
    where = next(n for n, line in enumerate(lines, 1) if "gelu(" in line and "narrow" in line)
    origin = source.origin(where)
    assert origin is not None and SPLIT.read_text().split("\n")[origin.line - 1].lstrip().startswith("Y[m, n]")


def test_one_dispatch_launches_all_in_order(built: SequenceBuild) -> None:
    text = built.spec.source.text
    assert (
        "sums::dispatch({g.X, g.W, g.S, g.stream});\n    finish::dispatch({g.b, g.S, g.Y, g.scale, g.stream});" in text
    )
    assert text.count("PYBIND11_MODULE(split, m)") == 1


# ---------------------------------------------------------------- parts of a contraction

PARTS = """kernel parts
  dims {batch}M = 64, N = 64, K = {k}, PARTS = {parts}
  global A : bf16[{a}]
  global B : bf16[{b}]
  global S : f32[PARTS, {of}M, N]
  over {over}s in PARTS, m in M by 64, n in N by 64
  waves 2 x 2
  {clauses}
  each k in K by 32 part s
    p = p + {product}
  S[s, {at}m, n] = p
"""
LAYOUTS = {
    "ABt": ("M, K", "N, K", "A[m, k] @ B[n, k].T"),
    "AtB": ("K, M", "K, N", "A[k, m].T @ B[k, n]"),
    "of a batch": ("BATCH, M, K", "BATCH, N, K", "A[i, m, k] @ B[i, n, k].T"),
}
CLAUSES = {
    "gfx942": ["shared A, B\n  tail masked", "shared A, B buffers 2 via registers\n  tail masked"],
    "gfx950": ["shared A, B via direct", "shared A, B buffers 3 via registers\n  tail masked"],
}
MASKED = "shared A, B\n  tail masked"


def parts_of(layout: str, k: int, parts: int, clauses: str = MASKED, target: str = "gfx942") -> Spec:
    a, b, product = LAYOUTS[layout]
    batched = ("BATCH = 2, ", "BATCH, ", "i in BATCH, ", "i, ") if "batch" in layout else ("",) * 4
    batch, of, over, at = batched
    text = PARTS.format(
        batch=batch, of=of, over=over, at=at, a=a, b=b, product=product, k=k, parts=parts, clauses=clauses
    )
    return tkgen.load(text, target=target).check()


@pytest.mark.parametrize(
    ("target", "clauses"), sample([(t, c) for t, each in CLAUSES.items() for c in each], 2, several=True)
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_in_every_layout(layout: str, target: str, clauses: str) -> None:
    sizes = ((200, 3), (33, 5)) if "masked" in clauses else ((192, 3), (96, 3))
    for (k, parts), kind in zip(sizes, Inputs, strict=True):
        build = parts_of(layout, k, parts, clauses, target).build().check()
        assert build.resources.clean and build.machine_check.outcome == "right"
        tried = run(build, kind=kind)
        assert tried.ok, tried.failure


@pytest.mark.parametrize(("k", "parts", "clauses"), [(192, 3, "shared A, B buffers 2"), (33, 5, MASKED)])
def test_some_blocks_of_some_parts(k: int, parts: int, clauses: str) -> None:
    build = parts_of("of a batch", k, parts, clauses).build()
    for block in {*range(4), 2 * parts - 1, *build.spec.launch().sample()}:
        tried = run(build, [block])
        assert tried.ok, (block, tried.failure)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_references_of_harnesses_sum_the_same_parts(layout: str) -> None:
    spec = parts_of(layout, 100, 3)
    given = product_inputs(spec.launch())
    (meant,) = evaluate_all([meaning_of(spec.program)], given).values()
    found = torch_reference(spec.program.equations)
    scope = {"torch": torch, "tensors": given, "certain": lambda x: (x, x)}
    exec("\n".join(found.lines), scope)
    (value,) = (scope[output.value][0] for output in found.outputs)
    assert torch.equal(value if value.dim() == 3 else value.transpose(0, 1), meant.value)
    index = "index_1" if "batch" in layout else "index_0"
    host = "\n".join(host_reference(spec.program.equations).lines)
    assert f"k = {index} * 64; k < std::min<int>(extent_K, ({index} + 1) * 64)" in host


# ---------------------------------------------------------------- commands


def tkgen_(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def test_check_build_and_run(tmp_path: Path) -> None:
    assert "0 errors" in tkgen_("check", str(SPLIT))
    (report,) = json.loads(tkgen_("build", str(SPLIT), "-o", str(tmp_path), "--json"))
    assert [k["kernel"] for k in report["kernels"]] == ["sums", "finish"] and report["between"] == ["S"]
    assert {p.name for p in tmp_path.iterdir()} >= {"split.cpp", "split.json", "split.sums.hsaco", "split.finish.s"}
    lines = tkgen_("build", str(SPLIT), "-o", str(tmp_path)).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["split/sums", "split/finish"]
    (row,) = json.loads(tkgen_("run", str(SPLIT), "-D", "K=100 scale=1.5", "--json"))
    assert row["ok"] and row["sizes"]["K"] == 100 and row["comparison"]["wrong"] == 0


def test_the_regression_run() -> None:
    results = json.loads(tkgen_("test", str(SPLIT), "--schedules", "1", "--json"))
    cases = [r["case"] for r in results]
    assert cases[:2] == ["proves", "figures"] and cases[-2:] == ["sums, as shipped", "finish, as shipped"]
    assert len(cases) > 8 and not [r for r in results if r["failure"]]


@pytest.mark.parametrize(
    ("terms", "failure"),
    [
        ("sums/waves 4, finish/vgpr <= 200", ""),
        ("sums/waves 4, finish/waves 4", "finish/waves is 2, expected 4"),
        ("waves 4", "there is no waves"),
    ],
)
def test_each_kernel_is_held_to_its_figures(terms: str, failure: str) -> None:
    found = unmet(sequence(SPLIT.read_text().replace("\n", f"\n# expect {terms}\n", 1)).build())
    assert failure in found and bool(failure) == bool(found)


@pytest.mark.parametrize("stage", ["parse", "equations", "graph", "schedule", "lower"])
def test_stages_are_printed_for_each_kernel(stage: str) -> None:
    printed = tkgen_("check", str(SPLIT), "--print-after", stage)
    assert len(printed.splitlines()) > 10 if stage != "lower" else printed.count("void kernel(") == 2
