"""Parameters of several kernels are searched together, by the time of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tkgen
from tkgen.cli import app
from tkgen.execute.cases import unmet
from tkgen.predict import predict
from tkgen.sequence import SequenceSpec
from tkgen.tune.space import Space

LAYER = """# y = gelu(x Wt + b) in bf16.
# expect sums/waves 4, finish/vgpr <= 1, finish/waves 4
sequence layer
dims M = dynamic, N = 128, K = 288, PARTS = 3
param BN = 64, ROWS = 4
global X : bf16[M, K]
global W : bf16[N, K]
global b : bf16[N]
global S : f32[PARTS, M, N]
global Y : bf16[M, N]

kernel sums
  tune BN in 64, 128
  over s in PARTS, m in M by 64, n in N by BN
  remap group(rows = 2)
  waves 2 x 2
  shared X, W
  tail masked
  each k in K by 32 part s
    p = p + X[m, k] @ W[n, k].T
  S[s, m, n] = p

kernel finish
  tune ROWS in 4, 6
  over m in M by ROWS, n in N by 128
  waves 2
  Y[m, n] = gelu(colsum(S[PARTS, m, n]) + b[n])
"""


def tune(folder: Path, *options: str, code: int = 0) -> str:
    (folder / "layer.tk").write_text(LAYER)
    command = ["tune", str(folder / "layer.tk"), "-o", str(folder / "tune"), "-j", "1", "--best", "1", *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == code, result.output
    return result.output


def test_the_fastest_of_all_kernels_together_wins(tmp_path: Path) -> None:
    found = json.loads(tune(tmp_path, "--sizes", "M=256", "--json"))
    assert found["space"] == 4 and len(found["trials"]) == 4
    ranked = [t["seconds"] for t in found["trials"] if t["seconds"] is not None]
    assert ranked == sorted(ranked) and found["winner"]["verified"] and found["winner"]["seconds"] == ranked[0]
    text = (tmp_path / "tune/winner.tk").read_text()
    assert "tune BN" not in text and "tune ROWS" not in text and "# Chosen by tkgen tune for M=256" in text
    spec = tkgen.load(tmp_path / "tune/winner.tk").check()
    assert isinstance(spec, SequenceSpec)
    build = spec.build().check()
    assert not unmet(build)  # the figures of the expect line are the winner's
    assert predict(build, {"M": 256}).seconds == pytest.approx(ranked[0])
    assert found["winner"]["registers"] == max(
        k.spec.target.allotted_registers(k.resources.vgpr) for k in build.kernels
    )


def test_the_size_of_a_dynamic_dimension_is_asked_for(tmp_path: Path) -> None:
    assert "M is dynamic" in tune(tmp_path, code=2)


def test_the_numbers_of_all_kernels_are_offered_and_searched(tmp_path: Path) -> None:
    out, text = tmp_path / "tune", "\n".join(line for line in LAYER.splitlines() if "tune " not in line)
    plain = tmp_path / "plain.tk"
    plain.write_text(text.replace("M = dynamic", "M = 64"))
    command = ["tune", str(plain), "-o", str(out), "-j", "1", "--json"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    offered = Path(json.loads(said.stdout)["offers"][str(plain)])
    (variant,) = Space.of([offered], {}, {}).variants
    assert {"PARTS_SIZE", "BN", "ROWS", "K_STEP", "M_TILE", "WAVES"} <= variant.axes.keys()
    fixed = [f"{name}={values[0]}" for name, values in variant.axes.items() if name not in ("PARTS_SIZE", "ROWS")]
    more = ["--range", "PARTS_SIZE=1,3", "--range", "ROWS=4,8", "-D", " ".join(fixed), "--best", "1"]
    said = CliRunner().invoke(app, ["tune", str(offered), *more, *command[2:]])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["space"] == 4 and found["winner"]["verified"]
