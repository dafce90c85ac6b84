"""The target files: every number sourced, the derived numbers right."""

from __future__ import annotations

import dataclasses
import pickle
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tkgen.backends.cdna.lower.operations import waitcnt
from tkgen.backends.hopper import machine
from tkgen.backends.hopper.machine import Hopper, HopperProduct
from tkgen.targets import (
    Target,
    UnknownTargetError,
    counted,
    hopper_names,
    known_names,
    load_target,
    model,
    target_names,
)
from tkgen.targets.facts import missing
from tkgen.targets.model import Product, Timing
from tkgen.targets.synchronisation import Attendance

TARGETS = Path(model.__file__).parent


def raw(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("tkgen.targets").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def numbers(node: Any, path: str, owner: dict[str, Any] | None) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Every number of a file with the table it stands in."""
    if isinstance(node, dict):
        for key, child in node.items():
            yield from numbers(child, f"{path}.{key}", node)
    elif isinstance(node, list):
        for child in node:
            yield from numbers(child, path, owner)
    elif isinstance(node, int | float):
        yield path, owner


def test_there_is_a_file_per_target() -> None:
    files = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in TARGETS.glob("*.toml")}
    assert {name: missing(name) for name in files} == dict.fromkeys(files, ())
    for backend, names in (("cdna", target_names()), ("hopper", hopper_names())):
        assert names and names == tuple(sorted(name for name in files if files[name]["backend"] == backend))


def keys(table: Mapping[str, Any]) -> set[str]:
    """The facts of a stub's table."""
    return {key for key in table if key not in ("name", "instruction", "dtype", "optional")}


def fields(owner: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(owner)} - {"name"}


@pytest.mark.parametrize("kind", ["cdna", "hopper"])
def test_the_stub_of_a_kind_has_every_fact_that_is_read(kind: str) -> None:
    stub = tomllib.loads((TARGETS / "stubs" / f"{kind}.toml").read_text(encoding="utf-8"))
    listed = {f"{s}.{key}" for s, table in stub.items() if isinstance(table, dict) and s != "timing" for key in table}
    timing, product, read = (Timing, Product, model.FIELDS) if kind == "cdna" else (
        machine.HopperTiming, HopperProduct, machine.FIELDS)  # fmt: skip
    assert listed == set(read.values())
    assert keys(stub["timing"]) == fields(timing) and keys(stub["product"][0]) == fields(product)


@pytest.mark.parametrize("name", target_names())
def test_every_number_has_a_source_and_a_unit(name: str) -> None:
    found = list(numbers(raw(name), name, None))
    assert len(found) > 40
    for path, owner in found:
        assert owner is not None and str(owner.get("source", "")).strip() and str(owner.get("unit", "")).strip(), path
    assert len(load_target(name).sources) > 30


@pytest.mark.parametrize("name", target_names())
def test_every_number_of_the_file_reaches_the_target(name: str) -> None:
    """A key that nobody reads is a fact that nobody checks: sections have exactly the fields of the dataclass."""
    data = raw(name)
    target = load_target(name)
    scalars = [
        f
        for f in dataclasses.fields(target)
        if f.name not in ("mfmas", "products", "timing", "synchronisation", "sources")
    ]
    in_file = sum(len(data[s]) for s in ("code_object", "compute", "registers", "lds", "cache"))
    assert in_file + 4 == len(scalars)
    timing = {f.name for f in dataclasses.fields(target.timing)} if target.timing else set()
    assert timing == set(data.get("timing", ()))
    assert target.sources["lds.banks"] == data["lds"]["banks"]["source"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.lds_banks = 1  # type: ignore[misc]


def test_the_facts_of_gfx942() -> None:
    t = load_target("gfx942")
    assert (t.lds_bytes_per_block, t.lds_banks, t.direct_load_bytes) == (65536, 32, (4,))
    assert (t.product.compute_units, t.product.xcds, t.product.cus_per_xcd) == (304, 8, 38)
    assert (t.dialects, t.kittens_define) == (("tk",), "KITTENS_CDNA3")
    assert (t.max_threads_per_block, t.wave_size) == (1024, 64)
    assert t.product_named("mi325x").hbm_tbps == 6.0
    assert t.mfma("bf16", 16, 16, 16).cycles == 16  # type: ignore[union-attr]
    assert t.mfma("bf16", 16, 16, 32) is None


def test_the_facts_of_gfx950_and_gfx90a() -> None:
    new, old = load_target("gfx950"), load_target("gfx90a")
    assert (new.lds_bytes_per_block, new.lds_banks, new.direct_load_bytes) == (163840, 64, (4, 12, 16))
    assert new.dialects == ("hk",) and old.dialects == ("tk",)
    assert new.transposing_reads and not old.transposing_reads
    assert new.mfma("bf16", 16, 16, 32).cycles == 16  # type: ignore[union-attr]
    assert old.mfma("bf16", 16, 16, 16).instruction == "v_mfma_f32_16x16x16bf16_1k"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", target_names())
def test_derived_peaks_agree_with_the_data_sheets(name: str) -> None:
    target = load_target(name)
    for product in target.products:
        assert target.peak_tflops("bf16", product) == pytest.approx(product.peak_tflops, rel=0.02)
        assert target.peak_tflops("f16", product) == target.peak_tflops("bf16", product)
    assert target.peak_tflops("f32") < target.peak_tflops("bf16")


@pytest.mark.parametrize(
    ("vgprs", "agprs", "waves"),
    [
        (0, 0, 8),
        (64, 0, 8),
        (65, 0, 7),  # 72 registers
        (108, 0, 4),  # as LLVM's "Occupancy: 4" says for this count
        (128, 0, 4),
        (129, 0, 3),
        (256, 0, 2),
        (256, 172, 1),  # as LLVM's "Occupancy: 1" says for 428 registers
        (256, 256, 1),
        (126, 128, 2),  # AGPRs begin at 128
        (125, 3, 3),  # 128 + 3 -> 136
        (257, 0, 0),
    ],
)
def test_waves_per_simd(vgprs: int, agprs: int, waves: int) -> None:
    assert load_target("gfx942").waves_per_simd(vgprs, agprs) == waves


def test_max_registers_is_the_inverse_of_waves_per_simd() -> None:
    target = load_target("gfx942")
    for waves in range(2, 9):
        most = target.max_registers(waves)
        assert target.waves_per_simd(most) == waves
        assert target.waves_per_simd(most + 1) < waves
    assert target.max_registers(1) == 512


def test_occupancy_names_what_limits() -> None:
    target = load_target("gfx942")
    eight_wave = target.occupancy(vgprs=240, lds_bytes=32768, waves_per_block=8)
    assert (eight_wave.blocks_per_cu, eight_wave.waves_per_simd, eight_wave.limit) == (1, 2.0, "registers")
    assert target.occupancy(64, 40000, 4).limit == "lds"
    assert target.occupancy(64, 40000, 4).blocks_per_cu == 1
    assert target.occupancy(32, 0, 4) == target.occupancy(64, 1, 4)
    assert target.occupancy(32, 0, 4).blocks_per_cu == 8 and target.occupancy(32, 0, 4).limit == "waves"
    assert target.occupancy(64, 65537, 4).limit == "nothing fits"
    assert target.occupancy(256, 0, 12).blocks_per_cu == 0  # 12 waves of 256 registers: 8 fit
    assert target.occupancy(100, 0, 1).blocks_per_cu == 16
    assert target.occupancy(0, 513, 1).blocks_per_cu == 32
    assert load_target("gfx950").occupancy(64, 65536, 4).blocks_per_cu == 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gfx943", "gfx942"),
        ("GFX942", "gfx942"),
        ("mi300x", "MI300X is gfx942"),
        ("h100", "H100 is sm_90a"),
        ("a100", "known are " + ", ".join(known_names())),
        ("", "known"),
    ],
)
def test_unknown_targets_get_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(UnknownTargetError, match=hint):
        load_target(name)


def test_unknown_product_lists_the_known() -> None:
    with pytest.raises(UnknownTargetError, match="MI300X, MI325X"):
        load_target("gfx942").product_named("MI999")


def test_sustained_clocks_are_published_ones_or_none() -> None:
    gfx942 = load_target("gfx942")
    assert gfx942.product_named("MI325X").sustained("bf16") == (831.4, 1431)
    assert gfx942.product_named("MI300X").sustained("f16") == (654, 1115)
    assert gfx942.product.sustained("f32") is None
    assert load_target("gfx950").product.sustained("bf16") is None
    # What is sustained at a clock is at most what that clock can do.
    for product in gfx942.products:
        tflops, mhz = product.sustained("bf16") or (0.0, 1)
        assert 0.9 < tflops / (product.peak_tflops * mhz / product.clock_mhz) < 0.96


@pytest.mark.parametrize("name", target_names())
def test_streams_and_meetings_say_where_they_are_from(name: str) -> None:
    data, found = raw(name), load_target(name).synchronisation
    assert all(table["source"] for table in (*data["stream"], *data["meeting"]))
    assert [s.name for s in found.streams] == ["vm", "lds"] and all(s.in_order for s in found.streams)
    assert [(m.name, m.attendance) for m in found.meetings] == [("s_barrier", Attendance.ALL)]
    assert found.fences == ()


def test_a_wait_for_as_many_as_are_counted_is_none() -> None:
    """The numbers of the files are those that schedules count to and that the immediate of `s_waitcnt` holds."""
    most = counted()
    for target in map(load_target, target_names()):
        assert target.synchronisation.counters == most
    assert waitcnt({}) == waitcnt(most) == 0xCF7F
    for counter in most:
        assert waitcnt({counter: most[counter] - 1}) != waitcnt({}) == waitcnt({counter: most[counter] + 1})


@pytest.mark.parametrize("name", target_names())
def test_a_target_goes_from_process_to_process(name: str) -> None:
    """As the language server's worker sends it, in a plan."""
    assert pickle.loads(pickle.dumps(load_target(name))) == load_target(name)


@pytest.mark.parametrize("owner", [Target, Timing, Product, Hopper, HopperProduct], ids=lambda owner: owner.__name__)
def test_every_field_of_a_target_is_read(owner: type) -> None:
    """A target file has no field that nobody reads; `scales_blocks` is read before there is a target."""
    folder = Path(__file__).parents[2] / "tkgen"
    text = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    read = {*re.findall(r"\.(\w+)\b", text), "scales_blocks"}
    assert not {field.name for field in dataclasses.fields(owner)} - read
