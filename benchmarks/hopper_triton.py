"""Configurations of a plain matrix product in Triton (`tkgen.hardware.triton_product`) for Hopper."""

from __future__ import annotations

from tkgen.hardware.triton_product import start

__all__ = ["CONFIGURATIONS", "start"]

CONFIGURATIONS = [(128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4)]
"""Rows, columns and K-step of a block, warps, stages."""
