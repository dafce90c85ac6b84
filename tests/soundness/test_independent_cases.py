"""The specs of an independent test that were accepted and wrong, or accepted and did not compile: `tkgen run` of each.

Each is right on the machine code - that of sm_90a as C++ on the CPU -, or refused with the code of the reason. What
holds the references themselves is beside this file: they are compared with torch and numpy there, class by class.
`coord_flat_index` has an output of 8 GiB, of which two blocks run; where so much is not free the command says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.cli import app

SPECS = Path(__file__).parent / "specs" / "independent"

RIGHT: dict[str, tuple[str, ...]] = {  # name -> what the command takes beside it
    "bs_i8": (),
    "coord_flat_index": ("--blocks", "0,2099199"),
    "coord_product_rows": ("--blocks", "0,724"),
    "coord_square_attention": ("--blocks", "0"),
    "coord_square_rows": ("--blocks", "0,1024"),
    "gemm_blocksparse": (),
    "interleave_sched_group": (),
    "mask_f32_rounding": (),
    "mask_inf_traceback": (),
    "mla_named": (),
    "name_scalar_TILE_j": ("-D", "TILE_j=0.2"),
    "name_value_V_f": ("-D", "SC=0.2"),
    "one_row_four_waves": ("--schedules", "3"),
    "rope_positions": (),
    "rows_loop_weight_sum": (),
    "rows_weight_sum": (),
    "square_abt": (),
    "square_abt2": (),
    "square_abt2.sm90": ("-t", "sm_90a"),
    "two_gathers": (),
    "two_products_one_carry": (),
    "undeclared_value": (),
    "wait_states_mov": (),
    "wait_states_pk_mul": (),
    "welford": ("-D", "D=700"),
    "zero_minus_reciprocal": ("--schedules", "2"),
}
REFUSED = {  # name -> what is said of it
    "blocks_memory": ("GiB are free here", "--blocks", "0"),
    "gemm_mc_e323": ("E405",),
    "gemm_w4a8": ("E230",),
    "pingpong_vector_ring": ("E230",),
    "squeeze_excite.sm90": ("E230", "-t", "sm_90a"),
}
LARGE = {"coord_flat_index", "coord_square_attention"}


def run(name: str, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["run", str(SPECS / f"{name}.tk"), *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_every_case_is_here() -> None:
    assert {path.stem for path in SPECS.glob("*.tk")} == RIGHT.keys() | REFUSED.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in LARGE or k % 2 else ()) for k, n in enumerate(RIGHT)]
)
def test_it_is_right(name: str) -> None:
    code, output = run(name, *RIGHT[name])
    assert code == 0 and "right" in output, output


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_reason(name: str) -> None:
    said, *options = REFUSED[name]
    code, output = run(name, *options)
    assert code in (1, 2) and said in output, output
