"""`tkgen verify`: machine code beside its meaning, and what is said where they differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.build import Build
from tkgen.cli import app
from tkgen.emulate import algebra
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources
from tkgen.verify import Verdict, field, verify
from tkgen.verify.compare import spread
from tkgen.verify.run import verified
from tkgen.verify.specs import case_of

SPECS = Path(__file__).parents[2] / "specs"
SIZES = {"M": 128, "N": 128, "K": 192}
ADD = """
extern "C" __global__ void add(const float *x, const float *y, float *z, float scale, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) z[i] = x[i] + y[ANOTHER] * scale;
}
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["verify", *words])


def eight_wave() -> Build:
    build = load(SPECS / "eight_wave.tk", SIZES).build(machine_check=False)
    assert isinstance(build, Build)
    return build


def changed(build: Build, old: str, new: str) -> Verdict:
    """The verdict on a build whose source has a mistake."""
    text = build.spec.source.text
    assert old in text
    result = compile_device(
        text.replace(old, new), build.spec.target, build.compiler, include_dirs=[kittens.include_dir()],
        source_name="changed.cpp",
    )  # fmt: skip
    assert result.asm is not None and result.hsaco is not None
    (resources,) = read_resources(result.hsaco).values()
    return verify(replace(build, asm=result.asm, hsaco=result.hsaco, resources=resources))


def test_both_sides_compute_in_the_same_fields() -> None:
    assert algebra.moduli() == (field.P, field.Q) == (algebra.P, algebra.Q)
    values = field.torch.randint(0, field.P, (300,), generator=field.torch.Generator().manual_seed(3))
    for tag, number, modulus in (("Q", 1, field.Q), ("log2", 0, field.P), ("rsqrtq", 1, field.Q)):
        assert field.hashed(tag, values, modulus).tolist() == [algebra.hashed(tag, int(x), number) for x in values]


def test_a_spec_is_as_meant() -> None:
    verdict = verify(eight_wave())
    assert verdict.ok and verdict.degree == 2 and verdict.chance < 1e-17
    assert [t.elements for t in verdict.trials] == [128 * 128] * 2


@pytest.mark.parametrize(
    ("old", "new", "where", "cause", "kind"),
    [
        (
            "mma_ABt(C_acc[0][j], A_r[0][0], B_r[0][j], C_acc[0][j]);  // spec:16\n        tk::lds_barrier();",
            "if (warpid() != 1) mma_ABt(C_acc[0][j], A_r[0][0], B_r[0][j], C_acc[0][j]);\n        tk::lds_barrier();",
            "2048 of 16384 elements, the first [0, 32]: M 0..31; N 32..63, 96..127",
            "C[0, 32] lacks A[0, 0..63] * B[32, 0..63]",
            "lacks",
        ),
        (
            "mma_ABt(C_acc[0][j], A_r[1][0], B_r[1][j], C_acc[0][j]);",
            "mma_ABt(C_acc[0][j], A_r[1][0], B_r[0][j], C_acc[0][j]);",
            "all elements",
            "C[0, 0] has A[0, 64..127] * B[0, 128..191], in place of k 64..127",
            "mixed",
        ),
    ],
)
def test_what_is_wrong_is_explained(old: str, new: str, where: str, cause: str, kind: str) -> None:
    verdict = changed(eight_wave(), old, new)
    (wrong,) = verdict.wrong
    assert not verdict.ok and wrong.output == "C" and where in wrong.text
    assert len(verdict.cause) == 1 and verdict.cause[0].text.startswith(cause)
    data = json.loads(json.dumps(verdict.to_json()))
    (said,) = data["wrong"]
    assert said["output"] == "C" and said["kind"] == "different" and said["elements"] == verdict.trials[0].wrong
    (found,) = data["cause"]
    run = {"lacks": [0, 63], "mixed": [64, 128]}[kind]
    assert (found["kind"], found["element"], found["where"]) == (kind, said["first"], [run])


def test_the_command_on_a_spec() -> None:
    result = run(str(SPECS / "rows" / "softmax.tk"), "-D", "ROWS=5 D=512")
    assert result.exit_code == 0, result.output
    assert "softmax  ROWS=5 D=512  (built for -D)" in result.output and "as meant, in 2 draws" in result.output
    found = json.loads(run(str(SPECS / "rows" / "softmax.tk"), "-D", "ROWS=5 D=512", "--json").output)
    assert [(v["name"], v["ok"], v["sizes"]) for v in found] == [("softmax", True, {"ROWS": 5, "D": 512})]


# ---------------------------------------------------------------- kernels of others


@pytest.fixture
def add(tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "meaning.py").write_text(
        "import torch\n"
        "def add(x, y, scale): return x + y * scale\n"
        "def other(x, y): return torch.sort(x)[0] + y\n"
        "def more(x, y, w): return x + y + w\n"
        "def both(x, y): return x, y\n"
        "def fails(x): return x @ x.nothing\n"
    )

    def of(reference: str, another: str = "i", *more: str) -> Result:
        (tmp_path / "add.hip").write_text(ADD.replace("ANOTHER", another))
        arguments = ["x:f32[100]=randn", "y:f32[100]=randn", "z:f32[100]=nan:out", "scale:f32=0.3", "i32=100"]
        words = [w for a in arguments for w in ("--arg", a)]
        place = f"{tmp_path / 'meaning.py'}:{reference}"
        return run(str(tmp_path / "add.hip"), "--reference", place, "--grid", "2", "--block", "64", *words, *more)

    return of


def test_a_kernel_beside_a_function_of_torch(add: Callable[..., Result]) -> None:
    result = add("add")
    assert result.exit_code == 0 and "as meant" in result.output, result.output
    wrong = add("add", "i < 99 ? i : 98")
    assert wrong.exit_code == 1
    assert "WRONG z: not the intended value: the element [99]" in wrong.output
    assert "z[99] is what `x + y * scale` gives with y -1 along dimension 0" in wrong.output


def test_what_is_asked_for_wrongly(add: Callable[..., Result], tmp_path: Path) -> None:
    for reference, code, message in (
        ("other", 1, "torch's `sort` is not known to the algebra"),
        ("more", 2, "takes `w`, and there are"),
        ("both", 2, "returns 2 tensors, the kernel writes 1: z"),
        ("fails", 2, "failed: AttributeError"),
        ("none", 2, "is not a function: write FILE.py:FUNCTION"),
    ):
        result = add(reference)
        assert result.exit_code == code and message in " ".join(result.output.split()), result.output
    alone = run(str(tmp_path / "add.hip"))
    assert alone.exit_code == 2
    assert "a kernel that is not a spec must be the only file" in " ".join(alone.output.split())


def test_places_in_words() -> None:
    assert spread([3]) == "3" and spread([3, 4, 5]) == "3..5" and spread([1, 2, 9]) == "1..2, 9"
    assert spread([0, 1, 16, 17, 32, 33]) == "0..1 and so on, each 16, to 32..33"
    assert spread([1, 3, 8, 20, 21, 40]) == "1, 3, 8, ... 40"


def test_some_blocks_of_groups_are_held_to_the_offsets_that_are_drawn() -> None:
    """Their rows were those of groups that are alike, which the launch had not."""
    path = SPECS / "attention" / "attention_chunks.tk"
    build = load(path, {"SEQUENCES": 3, "TOTAL": 128, "KEYS": 512, "HEADS": 4, "KV_HEADS": 1}).build()
    verdict = verified(case_of(build, blocks=(0, 11)), 2, 2, 0)
    assert verdict.ok, verdict.wrong
