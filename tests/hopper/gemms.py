"""Texts of specs for Hopper, and the cases that a GPU runs."""

from __future__ import annotations

from typing import Any


def gemm(
    layouts: str = "NN",
    block: tuple[int, int, int] = (128, 256, 64),
    stages: int = 4,
    operand: str = "bf16",
    output: str = "bf16",
    grid: str = "persistent(132)",
    epilogue: str = "",
    tail: str = "tail masked",
    dims: tuple[int, int, int] = (1024, 1024, 1024),
) -> str:
    """A spec: `layouts` is N or T for each operand, as in BLAS, row-major."""
    rows, cols, step = block
    waves = rows // 16
    a, b = "M, K" if layouts[0] == "N" else "K, M", "K, N" if layouts[1] == "N" else "N, K"
    lines = f"""kernel gemm
  target sm_90a
  dims M = {dims[0]}, N = {dims[1]}, K = {dims[2]}
  global A : {operand}[{a}]
  global B : {operand}[{b}]
  global C : {output}[M, N]
  {"scalar alpha : f32 = 0.5" if "alpha" in epilogue else ""}
  block {rows} x {cols} step {step}
  grid {grid}
  remap group(rows = 8)
  {tail}
  shared A, B buffers {stages} via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..{3 + waves} as {waves} x 1
    accumulate C : f32 tile 16 x {cols}
    {f"epilogue {epilogue}" if epilogue else ""}
    store C
"""
    return "\n".join(line for line in lines.splitlines() if line.strip()) + "\n"


RAGGED, ODD = (200, 328, 136), (392, 520, 264)

CASES: list[dict[str, Any]] = [
    *(
        {"layouts": layouts, **more}
        for layouts in ("NN", "NT", "TN", "TT")
        for more in (
            {"dims": (256, 512, 256)},
            {"dims": RAGGED},
            {"dims": (64, 64, 64)},
            {"dims": (4096, 2048, 512)},
            {"dims": (136, 72, 40), "block": (64, 64, 64)},
        )
    ),
    *(
        {"block": (rows, cols, 64), "stages": 3, "dims": ODD}
        for cols in (64, 128, 192, 256)
        for rows in (64, 128, 192)
        if (rows, cols) != (192, 256)
    ),
    {"operand": "f16", "output": "f16", "dims": RAGGED},
    {"operand": "f16", "output": "f32", "layouts": "NT", "dims": RAGGED},
    {"output": "f32", "dims": (512, 512, 1024)},
    {"output": "f32", "block": (128, 192, 64), "stages": 3, "dims": (512, 512, 1024)},
    {"grid": "linear", "dims": (640, 520, 264)},
    {"grid": "persistent(3)", "dims": (1024, 1024, 200)},
    {"grid": "persistent(7)", "stages": 2, "dims": (1024, 1024, 200)},
    {"block": (128, 256, 128), "stages": 2, "dims": (512, 512, 1024)},
    {"block": (128, 256, 128), "stages": 2, "layouts": "TT", "dims": (512, 512, 1032)},
    {"epilogue": "scale(alpha) | relu", "dims": RAGGED},
    {"stages": 2, "dims": (8192, 8, 64)},
    {"dims": (8, 8, 8)},
    {"dims": (128, 256, 8)},
    {"grid": "linear", "tail": "", "stages": 2, "dims": (256, 512, 640)},
]
