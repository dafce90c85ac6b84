"""Hardware numbers stand in the targets' files alone: where they are used, none that is known is written out."""

from __future__ import annotations

import tokenize
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

TKGEN = Path(__file__).parents[2] / "tkgen"
PACKAGES = ("ir", "schedule", "checks", "backends/cdna", "proof", "sequence", "machine_check",
            "build")  # fmt: skip
# Lanes of a wave, threads and waves of a block, registers of a lane, LDS in KiB or bytes, its banks, compute units,
# what counters count, bytes of an access, sides of products, boxes of copies. (4 SIMDs and 8 waves of one are also
# numbers of much else.)
KNOWN = {
    64, 1024, 256, 512, 160, 65536, 163840, 232448, 227, 228, 304, 132, 63, 62, 15,
    16, 32, 128, 255, 104, 110, 80, 38, 131072, 262144, 524288, 2048, 4096,
}  # fmt: skip
# What is one of these numbers, but none of a GPU's, or a fact of the embedded headers.
OTHERS = {
    "checks/registers.py: STAGED_ADDRESSES = 16": "how many registers the compiler takes",
    "checks/shapes.py: BOX = (16, 64)": "how the headers lay tiles out",
    "checks/shapes.py: PANEL = 64": "how the headers lay tiles out",
    "checks/shared_memory.py: ALIGNMENT = 16": "how the headers lay tiles out",
    "checks/shared_memory.py: block, lane = divmod(at, 32)": "how generated code deals out a tile",
    "ir/functions/definitions/dropout.py: a, b = (right >> 32 & MASK) ^ b ^ low, right & MASK": "halves of 64 bits",
    "ir/functions/definitions/dropout.py: c, d = (left >> 32 & MASK) ^ d ^ high, left & MASK": "halves of 64 bits",
    "ir/typing/summed.py: MOST_TERMS = 64": "terms of a sum that is written out",
    "ir/integers.py: LARGEST_LONG = (1 << 63) - 1": "numbers of 64 bits",
    "ir/limits.py: LAUNCH_THREADS = (1 << 32) - 1": "numbers of 32 bits",
    "schedule/leading.py: MOST_ROUNDS = 64": "a bound of the language",
    "ir/resolve/dataflow.py: LDS_ROW = 64": "how the headers lay tiles out",
    "ir/resolve/dataflow.py: MOST_BUFFERS = 16": "a bound of the language",
    "ir/resolve/written.py: MOST_LEFT = 255": "a bound of the language",
    'ir/tensors.py: BF16 = ("bf16", "bf16", 16, "bf")': "bits of an element",
    'ir/tensors.py: F16 = ("f16", "half", 16, "hf")': "bits of an element",
    'ir/tensors.py: F32 = ("f32", "float", 32, "fl")': "bits of an element",
    'ir/tensors.py: I32 = ("i32", "int", 32, "i32")': "bits of an element",
    "ir/products.py: LEAST_BLOCK = 32": "how many elements share a scale at least",
    "ir/resolve/declarations.py: INTERLEAVED = 128": "how packed weights are laid out",
    "ir/short_sums.py: DEVIATIONS_SQUARED = 80.0": "of a bound",
    "ir/rounding.py: return torch.randint(0, 256, tuple(shape), generator=generator, dtype=torch.uint8)": "of a byte",
    "lower/harness.py: 0x80 if whole or unsigned_zero else 0xFF,": "the encoding of NaN",
    "lower/reference.py: DEVIATIONS = 80.0": "of a bound",
    "ir/resolve/waves.py: return max(n for n in (1, 2, 4, 8, 16) if n == 1 or (n <= wanted and tiles % n == 0))": (
        "numbers of waves that are tried"
    ),
    "ir/resolve/waves.py: WANTED_SUMS = 128": "a default of the language",
    "ir/resolve/dataflow.py: BARRIERS_OF_STAGE = 16": "two objects of eight bytes (PTX ISA, mbarrier)",
    "ir/rounding.py: return rounded(32 * values, dtype)": "numbers worth trying",
    "ir/limits.py: 1 << 16": "a bound of the language",
    'schedule/rows.py: "pow": 16, "mod": 30, "expm1": 14, "fast_silu": 12, "fast_gelu": 15}': "of functions",
    (
        "ir/functions/definitions/fast.py: ulps=1.0, below=2.0**-21, beyond={HOPPER: 255.0}, "
        "ring=lambda x: 1 - 2 / (1 + (2 * x).exp()),"
    ): "an error",
    "schedule/row_footprint.py: SHOWN = 16": "lines of a table",
    'ir/functions/definitions/fast.py: _fast("silu", (CUDA_TANH, CUDA_SILU), more={HOPPER: 2.0**-15}),': "an error",
    (
        'ir/functions/definitions/fast.py: _fast("gelu_tanh", (CUDA_TANH, CUDA_GELU_TANH), (GELU_TANH,), '
        "more={HOPPER: 2.0**-15}, ring=_gelu_tanh),"
    ): "an error",
    "ir/types.py: BASE_TILE = 16": "how the headers lay tiles out",
    "lower/harness.py: DType.E5M2FNUZ: -15, DType.E2M1: 0, DType.E2M3: 0, DType.E3M2: -2,": "an exponent of a type",
    "lower/harness.py: DYNAMIC_SIZE, DYNAMIC_PLACES = 4096, 4": "a size to run with",
    "lower/harness.py: SAMPLES, REDUCED_SAMPLES = 2000, 16": "elements to look at",
    "proof/passes.py: MOST_TO_SETTLE = 16": "iterations to prove",
    "schedule/loop_tiles.py: ALIGNMENT = 16": "how the headers lay tiles out",
    "lower/loops.py: of_thread = 1 if ring.cols is None else 16 if ring.turned else ACCESS_BYTES // size": (
        "elements of a square that the headers turn"
    ),
    "ir/launch.py: PAGE_BYTES, WATCHED_PAGES = 1024, 40_000": "how much of memory the referee has room for",
    "schedule/loop_accesses.py: BYTE_COLUMNS = 64": "how the headers lay tiles out",
    "schedule/loops.py: BOX = (16, 32)": "how the headers lay tiles out",
    "ir/schedules/definitions/ping_pong.py: SMALLEST_BLOCK = 128 * 128 * 2": (
        "where one schedule is predicted to be faster"
    ),
    "schedule/rows.py: EXCHANGE_BYTES = 16 * 1024": "how much of the LDS sums of groups may take",
    "schedule/unrolled.py: MOST_PLACES = 32": "how many values the compiler holds",
    "ir/products.py: SCALED_BLOCK = 32": "what OCP's MX formats scale",
    "ir/resolve/clauses.py: MOST_UNROLL = 64": "a bound of the language",
    "ir/resolve/waves.py: MOST_SHIFT = 64": "a bound of the language",
    "ir/resolve/written.py: MOST_AHEAD = 64": "a bound of the language",
    "ir/resolve/written.py: MOST_MIXED = 256": "a bound of the language",
    "ir/resolve/sizes.py: if abs(result) >= 1 << 63:": "numbers of 64 bits",
    "lower/branches.py: PANEL = 64": "how the headers lay tiles out",
    "lower/operations.py: return (vm & 15) | EXPCNT_NONE << 4 | lds << 8 | (vm >> 4) << 14": (
        "the encoding of s_waitcnt"
    ),
}


def numbers(path: Path) -> Iterator[str]:
    """The lines, without comments, in which a known number stands as a number, however it is written."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NUMBER and literal_eval(token.string) in KNOWN:
                yield token.line.split("  #")[0].strip()


def test_a_number_is_found_however_it_is_written(tmp_path: Path) -> None:
    ways = ["64", "65_536", "0x40", "1024.0", "0b100000"]
    file = tmp_path / "a.py"
    file.write_text("".join(f"x = {way}\n" for way in [*ways, "65", "0x41", "'64'"]))
    assert list(numbers(file)) == [f"x = {way}" for way in ways]


def test_known_numbers_of_gpus_are_read_from_the_targets() -> None:
    found = {
        f"{path.relative_to(TKGEN).as_posix().removeprefix('backends/cdna/')}: {line}"
        for package in PACKAGES for path in (TKGEN / package).rglob("*.py") if "kittens" not in path.parts
        for line in numbers(path)
    }  # fmt: skip
    assert found == set(OTHERS)
