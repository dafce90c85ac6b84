"""Every clang from 19 on that is installed builds what the newest does: their builtins and listings differ."""

from __future__ import annotations

import shutil
from pathlib import Path

from typer.testing import CliRunner

from tkgen.cli import app

SPECS = Path(__file__).parents[2] / "specs"
COMPILERS = [path for n in range(19, 31) if (path := shutil.which(f"clang++-{n}"))]
SIZES = {"split_k": "M=128 N=128 K=512", "producer_consumer_4p4c": "M=256 N=256 K=128"}


def test_kernels_are_built_and_right() -> None:
    for compiler in COMPILERS or [None]:
        for name, sizes in SIZES.items():
            spec = str(SPECS / f"{name}.tk")
            named = ["--cxx", compiler] if compiler else []
            result = CliRunner().invoke(app, ["run", spec, "-t", "gfx942", "-D", sizes, *named])
            assert result.exit_code == 0, (compiler, name, result.output)
            assert "right" in result.output
