"""The GPUs: one TOML file per LLVM target name, loaded into frozen dataclasses.

    >>> target = load_target("gfx942")
    >>> target.lds_bytes_per_block, target.waves_per_simd(vgprs=128)
    (65536, 4)

Every hardware number lives in those files with its unit and its source; a new GPU is one new file.
"""

from tkgen.targets.model import (
    DEFAULT_TARGET,
    Mfma,
    Occupancy,
    Product,
    ShortSums,
    Target,
    UnknownTargetError,
    WaveGroups,
    common,
    compute_units,
    counted,
    fp8_cited,
    hopper_names,
    known_names,
    largest,
    load_target,
    meant_target,
    mixes_fp8,
    most_lds_bytes,
    most_threads,
    own_fp8,
    product_sides,
    scales_blocks,
    short_sums,
    target_names,
    wave_groups,
)

__all__ = [
    "DEFAULT_TARGET",
    "Mfma",
    "Occupancy",
    "Product",
    "ShortSums",
    "Target",
    "UnknownTargetError",
    "WaveGroups",
    "common",
    "compute_units",
    "counted",
    "fp8_cited",
    "hopper_names",
    "known_names",
    "largest",
    "load_target",
    "meant_target",
    "mixes_fp8",
    "most_lds_bytes",
    "most_threads",
    "own_fp8",
    "product_sides",
    "scales_blocks",
    "short_sums",
    "target_names",
    "wave_groups",
]
