"""The numbers of a kernel that one looks for first."""

from __future__ import annotations

from collections.abc import Iterator

from tkgen.report.facts import Facts


def headline(found: Facts) -> list[tuple[str, str, str]]:
    """Each with its name, value and a remark, as far as they are known."""
    return list(_numbers(found))


def _numbers(found: Facts) -> Iterator[tuple[str, str, str]]:
    if found.layout is not None:
        yield from found.layout.stats
    if found.ownership is not None:
        own = found.ownership
        yield "Block", f"{own.block[0]} x {own.block[1]}", f"K-step {own.step}, {found.problem.waves} waves"
    if found.pressure is not None:
        press = found.pressure
        remark = f"{'per lane' if press.measured else 'estimated'}, budget {press.budget}"
        yield "Registers", str(press.allotted), remark
    if found.lds is not None:
        yield "LDS", f"{found.lds.used / 1024:g} KiB", f"of {found.lds.capacity / 1024:g} KiB"
    if found.pipeline is not None:
        yield "Barriers", str(found.pipeline.barriers_per_step), "per K-step"
    if found.prediction is not None:
        known = {x.key.removeprefix("predict."): x.show() for x in found.prediction.figures}
        value, share = known.get("tflops", ""), f"{known.get('peak')} of peak"
        if "bandwidth" in known:
            value, share = known["bandwidth"], f"{known['copy']} of the copy rate"
        name = "Predicted, upper bound" if found.prediction.upper_bound else "Predicted"
        yield name, value, f"{share}, {known['time']}, limited by {found.prediction.limiter}"
    by_key = {f.key: f for f in found.figures}
    if "resources.vgpr_spills" in by_key:
        spills = by_key["resources.vgpr_spills"].value + by_key["resources.sgpr_spills"].value
        yield "Spills", f"{spills:g}", f"{by_key['resources.scratch_bytes'].value:g} B scratch per lane"
    if "occupancy.waves_per_simd" in by_key:
        blocks = by_key["occupancy.blocks_per_cu"].value
        yield "Occupancy", by_key["occupancy.waves_per_simd"].show(), f"waves per SIMD, {blocks:g} blocks per CU"
    if "main_loop.other_per_mfma" in by_key:
        mfma = next((m.count for m in found.mix if m.key == "mfma"), 0)
        yield "Others per MFMA", by_key["main_loop.other_per_mfma"].show(), f"{mfma} MFMA in a pass of the loop"


def loops(found: Facts) -> bool:
    """Return True if the instructions that are counted are those of a pass of a loop, not of all of a kernel."""
    return any(f.key.startswith("main_loop.") for f in found.figures)
