"""Kernels built when they are called: `tkgen.jit` of functions, texts and paths."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import tkgen
from tkgen import ops, tune
from tkgen.cli import app
from tkgen.diagnostics import Diagnostic, Edit, Fix
from tkgen.diagnostics.fixes import apply_fixes, edited
from tkgen.diagnostics.python_strings import dedented, find
from tkgen.source import Span

SPECS = Path(__file__).parents[2] / "specs"


@tkgen.jit
def axpy(X, Z, alpha=2.0):
    """
    # A product with a number, and a sum.
    kernel axpy
      dims ROWS = 4096, COLS = 1024
      param AT = 4
      scalar alpha : f32
      global X : bf16[ROWS, COLS]
      global Z : bf16[ROWS, COLS]
      global Y : f32[ROWS, COLS]

      over r in ROWS by AT
      waves 4
      Y[r] = alpha * X[r] + Z[r]
    """


@tkgen.jit
def either(X, more):
    """The kernel for one tensor or for the sum of its columns."""
    kind = {torch.bfloat16: "bf16", torch.float32: "f32"}[X.dtype]
    stored = "" if more else "[ROWS, COLS]"
    return f"""
    kernel either
      dims ROWS = dynamic, COLS = 128
      global X : {kind}[ROWS, COLS]
      global Y : f32{stored or "[ROWS]"}
      over r in ROWS by 4
      waves 4
      Y[r] = {"rowsum(X[r])" if more else "X[r] + 1"}
    """


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def wanted(x: Tensor, z: Tensor, alpha: float = 2.0) -> Tensor:
    return alpha * x.float() + z.float()


def test_a_decorated_function_is_called_with_its_own_parameters() -> None:
    x, z = normal(8, 64), normal(8, 64) + 1
    for made, alpha in ((axpy(x, z), 2.0), (axpy(x, z, 3.0), 3.0), (axpy(Z=z, X=x, alpha=0.5), 0.5)):
        torch.testing.assert_close(made, wanted(x, z, alpha), atol=1e-6, rtol=1e-6)
    build = axpy.build(x, z)
    assert build is axpy.build(x.clone(), z) and build.spec.defines == {"ROWS": 8, "COLS": 64}
    wide = normal(6, 96)
    torch.testing.assert_close(axpy(wide, wide), 3 * wide.float(), atol=1e-5, rtol=1e-5)
    assert axpy.build(wide, wide) is not build
    assert (axpy.__name__, repr(axpy)) == ("axpy", "<tkgen.jit axpy>") and "kernel axpy" in axpy.__doc__


def test_strides_do_not_matter() -> None:
    x = normal(64, 16)
    torch.testing.assert_close(axpy(x.T[:8], x.T[8:]), wanted(x.T[:8], x.T[8:]), atol=1e-6, rtol=1e-6)


def test_a_function_may_return_the_spec() -> None:
    x = normal(12, 128)
    torch.testing.assert_close(either(x, False), x.float() + 1)
    torch.testing.assert_close(either(x.float(), more=True), x.float().sum(1), atol=1e-4, rtol=1e-5)
    assert either.build(x, False) is either.build(normal(7, 128), False), "a dynamic dimension has one build"


@pytest.mark.parametrize("path", [str, Path])
def test_a_path_or_a_text_is_called_as_the_spec_says(path: type) -> None:
    softmax = tkgen.jit(path(SPECS / "rows/softmax.tk"))
    x = normal(8, 64)
    torch.testing.assert_close(softmax(x).float(), x.float().softmax(-1), atol=4e-3, rtol=4e-3)
    text = tkgen.jit((SPECS / "alpha_beta.tk").read_text())
    a, b, c = normal(128, 128), normal(128, 128), normal(128, 128, dtype=torch.float32)
    expected = 2 * (a.float() @ b.float().T) - c
    torch.testing.assert_close(text(a, b, c, 2.0, beta=-1.0), expected, atol=1e-3, rtol=1e-5)


def test_a_sequence_has_the_inputs_that_none_of_its_kernels_writes() -> None:
    gelu = tkgen.jit(SPECS / "sequences/split_k_gelu.tk")
    program = gelu._face(gelu._text, None).program
    sizes = {d.name: {"K": 512}.get(d.name, 128) for d in program.dims}
    given = [normal(*(sizes[d.name] for d in t.dims)) for t in program.reads]
    assert gelu(*given).shape == tuple(sizes[d.name] for d in program.outputs[0].dims)


def test_numbers_of_parameters_are_given_by_name() -> None:
    x = normal(8, 64)
    assert tkgen.jit(axpy.__doc__)(x, x, alpha=1, AT=2).equal(axpy(x, x, 1))
    assert tkgen.jit(axpy.__doc__).build(x, x, 1.0, AT=2).spec.defines["AT"] == 2


def test_outputs_are_written_where_they_are_wanted() -> None:
    x, z, out = normal(8, 64), normal(8, 64), torch.full((8, 64), float("nan"))
    assert axpy(x, z, out=out) is out and out.equal(axpy(x, z))
    strided = torch.empty(64, 8).T
    assert axpy(x, z, out=(strided,))[0] is strided and strided.equal(out)
    shared = tkgen.jit(axpy.__doc__.replace("bf16", "f32"))  # an output that is an input, too
    a, b = normal(8, 64, dtype=torch.float32), normal(8, 64, dtype=torch.float32)
    expected = wanted(a, b)
    shared(a, b, 2.0, out=a)
    torch.testing.assert_close(a, expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: axpy(x.half(), x), ValueError, r"axpy: X is bf16, not torch\.float16"),
        (lambda x: axpy(x, x[0]), ValueError, r"axpy: Z has 2 dimensions, not 1: it is \[ROWS, COLS\], not \[64\]"),
        (
            lambda x: axpy(x, x[:4]), ValueError,
            r"Z has ROWS = 4, expected 8: X is \[ROWS, COLS\] = \[8, 64\], Z is \[ROWS, COLS\] = \[4, 64\]",
        ),
        (lambda x: axpy(x, x, out=x), ValueError, r"axpy: Y is f32, not torch\.bfloat16"),
        (lambda x: axpy(x, x, out=(x, x)), ValueError, r"axpy has 1 outputs \(Y\), not 2"),
        (lambda x: axpy(x[:0], x[:0]), ValueError, "X has ROWS = 0, "),
        (lambda x: axpy(x), TypeError, "axpy: missing a required argument: 'Z'"),
        (lambda x: axpy(x, 3.0), TypeError, "axpy: Z is a torch tensor, not float"),
        (lambda x: tkgen.jit(axpy.__doc__)(x, x), TypeError, "spec: alpha is missing"),
        (lambda x: tkgen.jit(axpy.__doc__)(x, x, 1.0, alhpa=2), TypeError, "takes no `alhpa`; did you mean `alpha`"),
        (lambda x: tkgen.jit(axpy.__doc__)(x, x, 1.0, 2), TypeError, r"takes 3 arguments \(X, Z, alpha\), not 4"),
        (lambda x: tkgen.jit(axpy.__doc__)(x, x, X=x), TypeError, "two values for `X`"),
        (lambda x: tkgen.jit(lambda X: 3)(x), TypeError, "its docstring is none, and it returned int"),
        (lambda x: tkgen.jit(3), TypeError, "the text or the path of a spec, or a function, not int"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named_with_their_dimensions(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(normal(8, 64))


# ---------------------------------------------------------------- the Python file

MODULE = '''import tkgen

TEXT = """kernel plain
  dims ROWS = 8, COLS = 64
  global X : bf16[ROWS, COLS]
  global Y : bf16[ROWS, COLS]
  over r in ROWS by 4
  waves 4
  Y[r] = 2 * Q[r]
"""
plain = tkgen.jit(TEXT)


class Model:
    @tkgen.jit
    def indented(X):
        """
        kernel indented
          dims ROWS = 8, COLS = 64
          global X : bf16[ROWS, COLS]
          global Y : bf16[ROWS, COLS]
          over r in ROWS by 4
          wavs 4
          Y[r] = 2 * X[r]
        """


@tkgen.jit
def formatted(X, tile=4):
    return f"""
    kernel formatted
      dims ROWS = 8, COLS = 64
      global X : bf16[ROWS, COLS]
      global Y : bf16[ROWS, COLS]
      over r in ROWS by {tile}
      waves {2 + 2}
      Y[r] = {tile} * Xx[r] + {tile}
    """


def escaped(X):
    "kernel escaped\\n  dims N = 8\\n  global X : bf16[N]\\n"
'''


def module_of(path: Path, text: str) -> Any:
    path.write_text(text)
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_errors_point_into_the_python_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    module = module_of(path, MODULE)
    lines = MODULE.split("\n")
    x = normal(8, 64)
    for call, code, marked in (
        (module.plain, "E200", "Q"),
        (module.Model.indented, "E103", "wavs"),
        (module.formatted, "E200", "Xx"),
    ):
        with pytest.raises(tkgen.SpecError) as caught:
            call(x)
        (found, *_) = caught.value.diagnostics
        assert found.primary is not None
        span = found.primary.span
        assert (found.code, span.file.name, span.text) == (code, str(path), marked)
        assert f"--> {path}:{span.line}:{span.column}\n" in str(caught.value)
        assert f"\n{span.line} | {lines[span.line - 1]}\n" in str(caught.value)


def test_a_fix_is_an_edit_of_the_python_file(tmp_path: Path) -> None:
    module = module_of(tmp_path / "before.py", MODULE)
    with pytest.raises(tkgen.SpecError) as caught:
        module.Model.indented(normal(8, 64))
    text = apply_fixes(MODULE, caught.value.diagnostics, guesses=True)
    assert text == MODULE.replace("wavs", "waves")
    x = normal(8, 64)
    assert module_of(tmp_path / "after.py", text).Model.indented(x).equal(2 * x)


def test_a_new_line_is_indented_as_the_string_is(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    module = module_of(path, MODULE)
    place = find(module.Model.indented.__doc__, "<indented>", str(path))
    assert place is not None
    end = place.spec.text.index("\n  wavs")
    edit = Edit(Span(place.spec, end, end), "\n  tail masked")
    (moved,) = place.moved(Diagnostic("E101", "", fix=Fix("", (edit,)))).fix.edits
    assert edited(MODULE, [moved]) == MODULE.replace(
        "          wavs", "          tail masked\n          wavs"
    )  # fmt: skip


def test_a_string_that_is_in_no_file_has_its_own_lines(tmp_path: Path) -> None:
    module = module_of(tmp_path / "escaped.py", MODULE)
    for jitted, name in ((tkgen.jit(module.escaped), "<escaped>"), (tkgen.jit("kernel x\n  wavs 4" + "\n"), "<spec>")):
        with pytest.raises(tkgen.SpecError) as caught:
            jitted(normal(8))
        span = caught.value.diagnostics[0].primary.span
        assert span.file.name == name and f"--> {name}:" in str(caught.value)


# ---------------------------------------------------------------- torch.compile, targets, tuning


def test_torch_compile_traces_calls() -> None:
    x, z = normal(8, 64), normal(8, 64)
    compiled = torch.compile(lambda x, z: axpy(x, z, 4.0).relu() + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, z), wanted(x, z, 4.0).relu() + 1)

    def filled(x: Tensor, z: Tensor) -> Tensor:
        out = torch.empty(x.shape)
        axpy(x, z, out=out)
        return out + 1

    torch.testing.assert_close(torch.compile(filled, backend="aot_eager", fullgraph=True)(x, z), wanted(x, z) + 1)
    with pytest.raises(Exception, match="expected 8"):
        compiled(x, z[:4])
    made = axpy(x.requires_grad_(), z)
    with pytest.raises(RuntimeError, match="no gradient"):
        made.sum().backward()


def test_dynamic_dimensions_are_traced_once() -> None:
    traces = 0

    def backend(module: torch.fx.GraphModule, _: list[Tensor]) -> Any:
        nonlocal traces
        traces += 1
        return module.forward

    compiled = torch.compile(lambda x: either(x, True) + 1, backend=backend, dynamic=True, fullgraph=True)
    for rows in (16, 5, 12):
        x = normal(rows, 128)
        torch.testing.assert_close(compiled(x), x.float().sum(1) + 1, atol=1e-4, rtol=1e-5)
    assert traces == 1


def test_a_build_that_is_cached_on_disk_compiles_nothing() -> None:
    x = normal(8, 64)
    axpy(x, x)
    assert tkgen.jit(axpy.function).build(x, x).cached


@pytest.mark.parametrize("target", ["gfx950", "sm_90a"])
def test_cpu_tensors_are_computed_for_the_target(target: str) -> None:
    x, z = normal(8, 64), normal(8, 64)
    given = tkgen.jit(axpy.function, target=target)
    assert given.build(x, z).spec.target.name == target and axpy.build(x, z).spec.target.name == "gfx942"
    torch.testing.assert_close(given(x, z), wanted(x, z))
    with ops.emulated(target):
        assert axpy.build(x, z).spec.target.name == target


def test_tuned_parameters_are_kept_by_shape_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, x = tmp_path / "tuned.json", normal(8, 64)
    tuned = tkgen.jit(axpy.function, tune={"AT": [2, 4]}, tuned=path)
    torch.testing.assert_close(tuned(x, x), wanted(x, x))
    (found,) = json.loads(path.read_text())["shapes"]
    assert found["sizes"] == {"ROWS": 8, "COLS": 64} and found["values"]["AT"] in (2, 4) and found["seconds"] > 0
    assert tuned.build(x, x).spec.defines["AT"] == found["values"]["AT"]
    searched: list[object] = []
    monkeypatch.setattr(tune, "tune", lambda *_: searched.append(1))
    path.write_text(json.dumps({"version": 1, "shapes": [found | {"values": {"AT": 8}}]}))
    again = tkgen.jit(axpy.function, tune=True, tuned=path)
    assert again.build(x, x).spec.defines["AT"] == 8 and not searched
    with pytest.raises(AttributeError):  # another shape is searched
        again(normal(4, 64), normal(4, 64))
    assert searched
    path.write_text("{}")
    with pytest.raises(tune.TuneError, match=r"tuned\.json is no file of tuned shapes"):
        tkgen.jit(axpy.function, tune=True, tuned=path)(x, x)


def test_a_kernel_without_tune_clauses_has_its_numbers_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CPU tensors; what is found is written into the spec, and builds of a library and later calls read it."""
    monkeypatch.chdir(tmp_path)
    spec, x = Path("axpy.tk"), normal(8, 64)
    spec.write_text(dedented(axpy.function.__doc__ or "").lstrip())
    tuned = tkgen.jit(spec, tune=True, tuned="shapes.json")
    torch.testing.assert_close(tuned(x, x, 2.0), wanted(x, x))
    (found,) = json.loads(Path("shapes.json").read_text())["shapes"]
    assert found["sizes"]["ROWS"] == 8 and found["values"].keys() >= {"AT", "WAVES"} and "kernel axpy" in found["text"]
    assert tuned.build(x, x, 2.0).spec.program.waves == found["values"]["WAVES"]
    monkeypatch.setattr(tune, "tune", None)  # no search
    again = tkgen.jit(spec, tune=True, tuned="shapes.json")
    assert again.build(x, x, 2.0).spec.text == tuned.build(x, x, 2.0).spec.text
    built = CliRunner().invoke(app, ["build", "axpy.tk", "--library", "shapes.json", "-o", "out", "--emit", "cpp"])
    assert built.exit_code == 0, built.output
    (entry,) = json.loads(Path("out/axpy.library.json").read_text())
    library = (Path("out") / entry["files"]["cpp"]).read_text()
    assert library.splitlines()[1:] == tuned.build(x, x, 2.0).spec.text.splitlines()[1:]  # the first names the file


def test_a_kernel_with_nothing_to_tune_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tune.TuneError, match="axpy has nothing to tune: add a line `tune NAME in 64, 128`"):
        tkgen.jit(axpy.function, tune=True, target="sm_90a")(normal(8, 64), normal(8, 64))
    assert os.listdir(tmp_path) == []
