"""The benchmark on a Hopper GPU, as far as it goes without one: its kernels pass the checks, its page says all."""

from __future__ import annotations

from pathlib import Path

import hopper
import hopper_fp8
import hopper_predicted
import hopper_thunderkittens
import hopper_ways
import pytest
from sampling import sample

from tkgen.api import load
from tkgen.execute.race import order_of_round

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("layout", hopper.SPECS)
@pytest.mark.parametrize("shape", sample(hopper.SHAPES, 3), ids=str)
def test_every_shape_has_a_kernel(shape: tuple[int, int, int], layout: str) -> None:
    spec = hopper.spec_of(shape, layout)
    assert not spec.diagnostics and spec.program.products[0].layouts == {"NN": "AB", "NT": "ABt"}[layout]


def test_the_page_says_what_is_below_its_bar() -> None:
    lines: list[dict[str, object]] = [{"machine": {"device": "some GPU", "date": "today"}}]
    for who, tflops in (
        ("tkgen", 97.0),
        ("cuBLAS", 100.0),
        ("ThunderKittens", 80.0),
        ("Triton 1", 50.0),
        ("Triton 2", 60.0),
    ):
        lines.append({"shape": [4096, 4096, 4096], "layout": "NN", "who": who, "tflops": tflops, "spread": 0.02,
                      "detail": ""})  # fmt: skip
    lines.append({"clocks": "1980 MHz, 600 W"})
    for who, tflops in (("tkgen", 60.0), ("torch", 50.0), ("torch.compile", 80.0)):
        lines.append({"shape": [64, 32, 16], "layout": "h100_swiglu", "who": who, "tflops": tflops, "spread": 0.02,
                      "detail": "block"})  # fmt: skip
    text = hopper.page(lines)
    assert "| `h100_swiglu` | 64 x 32 x 16 | 60 ± 1.0 % | 50 ± 1.0 % | 80 ± 1.0 % | 1.200 | 0.750 | block |" in text
    assert "| 97 ± 1.0 % | 100 ± 1.0 % | 80 ± 1.0 % | 60 ± 1.0 % | 0.970 | 1.212 |" in text
    assert "ThunderKittens is its" in text and "device some GPU; date today" in text
    assert "0.970 of cuBLAS, 0.98 is aimed at" in text and "Every ratio" not in text
    assert "of ThunderKittens, 0.98" not in text
    lines = [{**line, "tflops": 120.0} if line.get("who") == "ThunderKittens" else line for line in lines]
    assert "4096 x 4096 x 4096 NN: 0.808 of ThunderKittens, 0.98 is aimed at" in hopper.page(lines)


@pytest.mark.parametrize("name", hopper_fp8.SPECS)
@pytest.mark.parametrize("size", sample(hopper_fp8.SIZES, 2))
def test_8_bit_floats_have_kernels(name: str, size: int) -> None:
    assert hopper_fp8.spec_of(name, size).program.m.size == size


def test_the_part_of_8_bit_floats_has_a_row_for_each() -> None:
    line = {"kind": "fp8", "spec": "h100_fp8", "size": 64, "spread": 0.02, "off": 0.002, "block": "some"}
    rates = (("tkgen", 90.0), ("torch", 100.0), ("Triton 1", 50.0), ("Triton 2", 60.0))
    text = hopper_fp8.page([line | {"who": who, "tflops": rate} for who, rate in rates])
    row = "| 90 ± 1.0 %, off 0.20 % | 100 ± 1.0 %, off 0.20 % | 60 ± 1.0 %, off 0.20 % | 0.900 | some |"
    assert f"| `h100_fp8` | 64 {row}" in text and hopper_fp8.page([]) == ""
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    assert all(page.count(f"| `{name}` | {size} |") == 1 for name in hopper_fp8.SPECS for size in hopper_fp8.SIZES)


@pytest.mark.parametrize("way", sample(hopper_ways.WAYS, 3), ids=lambda way: way.spec)
def test_other_ways_have_kernels(way: hopper_ways.Way) -> None:
    assert load(hopper_ways.SPECS / f"{way.spec}.tk", way.values).check()
    if way.plain:
        plain = load(hopper_ways.SPECS / f"{way.plain}.tk", {n: way.values[n] for n in "MNK"} | way.block)
        assert plain.check()


def test_the_part_of_other_ways_has_a_row_for_each() -> None:
    line = {"kind": "ways", "name": "h100_cluster", "sizes": "64 x 64 x 64", "spread": 0.02, "block": "some"}
    rates = (("tkgen", 90.0), ("plain", 60.0), ("torch", 100.0))
    text = hopper_ways.page([line | {"who": who, "rate": rate} for who, rate in rates])
    row = "| 90 ± 1.0 % | 60 ± 1.0 % | 100 ± 1.0 % | 1.500 | 0.900 | some | some |"
    assert f"| `h100_cluster` | 64 x 64 x 64 {row}" in text and hopper_ways.page([]) == ""
    alone = hopper_ways.page([line | {"who": who, "rate": 50.0} for who in ("tkgen", "torch")])
    assert "| 50 ± 1.0 % | - | 50 ± 1.0 % | - | 1.000 | some | - |" in alone


def test_a_checkout_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no checkout of ThunderKittens"):
        hopper_thunderkittens.starter(tmp_path)
    assert hopper_thunderkittens.fits((4096, 4096, 4096), "NN")
    assert not any(hopper_thunderkittens.fits(*at) for at in (((4096, 4096, 4096), "NT"), ((64, 8192, 8192), "NN")))


def test_nobody_follows_the_same_contestant_in_all_rounds() -> None:
    rounds = [order_of_round(turn, list("abcd")) for turn in range(15)]
    assert all(sorted(order) == list("abcd") for order in rounds)
    before_b = {order[order.index("b") - 1] for order in rounds if order[0] != "b"}
    assert before_b == set("acd") and len({order[0] for order in rounds}) == 4


def test_the_page_has_every_shape() -> None:
    text = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    text, predicted = text.split("## Predictions\n")
    assert predicted == hopper_predicted.page().split("## Predictions\n")[1]
    for shape in hopper.SHAPES:
        assert text.count(f"| {' x '.join(map(str, shape))} | N") == len(hopper.SPECS)
    for name, sizes in hopper.FUSED.items():
        assert text.count(f"| `{name}` |") == len(sizes)
    ways = text.split("## Other ways through a product\n")[1]
    assert all(ways.count(f"| `{way.spec}` |") == sum(w.spec == way.spec for w in hopper_ways.WAYS)
               for way in hopper_ways.WAYS)  # fmt: skip
    assert "ThunderKittens was not measured" not in text
