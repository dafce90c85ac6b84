"""Tests that need a compiler for Hopper."""

from __future__ import annotations

import pytest

from tkgen.backends.hopper.toolchain import find_nvcc
from tkgen.toolchain.compiler import ToolchainError


def _is_here() -> bool:
    try:
        find_nvcc()
    except ToolchainError:
        return False
    return True


compiles = pytest.mark.skipif(not _is_here(), reason="needs nvcc")
