"""The compiler's knowledge of a GPU, read from the TOML file of its LLVM target name."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any

from tkgen.targets.facts import missing, target_data, target_files
from tkgen.targets.synchronisation import Synchronisation, synchronisation

DEFAULT_TARGET = "gfx942"  # of a spec that names none
LINE_BYTES = 64  # of AMD GPUs: bytes that go between L2 and a CU together


class UnknownTargetError(ValueError):
    """No target of that name; the message lists what there is and suggests the nearest."""


def _view(data: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(data)


# A plan knows its target and goes from the language server's worker to it; Python itself cannot pickle views.
copyreg.pickle(MappingProxyType, lambda view: (_view, (dict(view),)))


@dataclass(frozen=True)
class Mfma:
    """One matrix instruction: D[m, n] += A[m, k] B[k, n] by one wave, operands of `dtype`, accumulation in f32."""

    instruction: str
    dtype: str
    m: int
    n: int
    k: int
    cycles: int

    @property
    def flops(self) -> int:
        """Floating-point operations of one execution by a wave."""
        return 2 * self.m * self.n * self.k

    @property
    def flops_per_cycle(self) -> float:
        """Rate of one SIMD's matrix unit while it executes nothing else."""
        return self.flops / self.cycles


@dataclass(frozen=True)
class Product:
    """One device sold with this architecture: what varies between cards of the same target."""

    name: str
    compute_units: int
    xcds: int
    clock_mhz: int
    peak_tflops: float
    hbm_tbps: float
    hbm_bytes: int
    hbm_bits: int
    bf16_sustained_tflops: float | None = None
    bf16_sustained_mhz: int | None = None
    f16_sustained_tflops: float | None = None
    f16_sustained_mhz: int | None = None

    @property
    def cus_per_xcd(self) -> int:
        """Compute units of one XCD."""
        return self.compute_units // self.xcds

    def sustained(self, dtype: str) -> tuple[float, int] | None:
        """TFLOP/s and engine clock in MHz that power leaves to dense matrix work; None where not published."""
        known = {
            "bf16": (self.bf16_sustained_tflops, self.bf16_sustained_mhz),
            "f16": (self.f16_sustained_tflops, self.f16_sustained_mhz),
        }
        tflops, mhz = known.get(dtype, (None, None))
        return None if tflops is None or mhz is None else (tflops, mhz)


@dataclass(frozen=True)
class Timing:
    """The numbers for predictions beside sizes and peak rates: cycles of the engine clock, nanoseconds, bytes per
    clock.
    """

    issue_cycles: int
    valu_cycles: int
    transcendental_cycles: int
    branch_cycles: int
    mfma_result_wait_states: int
    matrix_efficiency: float
    lds_latency_cycles: int
    lds_pair_bytes_per_clock: int
    l1_bytes_per_clock: int
    l2_bytes_per_clock: int
    llc_tbps: float
    hbm_efficiency: float
    l2_latency_ns: float
    llc_latency_ns: float
    hbm_latency_ns: float
    fetch_line_bytes: int
    launch_us: float
    power_exponent: float


@dataclass(frozen=True)
class Occupancy:
    """The number of blocks and waves that fit on one CU at once, and the limit that stops one more block.

    `limit` is "registers", "lds", "waves" (the hardware's slots) or "nothing fits".
    """

    blocks_per_cu: int
    waves_per_cu: int
    waves_per_simd: float
    limit: str


@dataclass(frozen=True)
class Target:
    """A GPU architecture. Bytes, registers per lane, lanes and cycles throughout; `sources` says where each is from."""

    name: str
    architecture: str
    dialects: tuple[str, ...]
    kittens_define: str
    machine: int
    simds_per_cu: int
    wave_size: int
    max_waves_per_simd: int
    max_threads_per_block: int
    access_bytes: int
    flushes_f16: bool
    own_fp8: tuple[str, ...]
    scales_blocks: bool
    mixes_fp8: bool
    registers_per_lane: int
    register_granule: int
    max_vgprs: int
    max_agprs: int
    agpr_alignment: int
    lds_bytes_per_cu: int
    lds_bytes_per_block: int
    lds_granule: int
    lds_banks: int
    lds_bank_bytes: int
    lds_read_bytes_per_clock: int
    lds_write_bytes_per_clock: int
    direct_load_bytes: tuple[int, ...]
    transposing_reads: bool
    l2_bytes_per_xcd: int
    llc_bytes: int
    mfmas: tuple[Mfma, ...]
    products: tuple[Product, ...]
    timing: Timing | None
    synchronisation: Synchronisation
    sources: Mapping[str, str] = field(repr=False, compare=False)

    @property
    def product(self) -> Product:
        """The default device of this target, the first in its file."""
        return self.products[0]

    def cited(self, key: str) -> str:
        """Return the source of a number of this target's file, as a note: `cited("lds.banks")`."""
        return f"source of {key} in targets/{self.name}.toml: {self.sources[key]}"

    def product_named(self, name: str) -> Product:
        """The device called `name`, in any case; UnknownTargetError names those there are."""
        for product in self.products:
            if product.name.lower() == name.lower():
                return product
        raise UnknownTargetError(
            f"{self.name} has no product '{name}'; it has {', '.join(p.name for p in self.products)}"
        )

    def mfma(self, dtype: str, m: int, n: int, k: int) -> Mfma | None:
        """The matrix instruction of that operand type and shape, or None where the hardware has none."""
        return next((i for i in self.mfmas if (i.dtype, i.m, i.n, i.k) == (dtype, m, n, k)), None)

    def mfma_shapes(self, dtype: str) -> tuple[Mfma, ...]:
        """The matrix instructions that take operands of `dtype`, in the file's order."""
        return tuple(i for i in self.mfmas if i.dtype == dtype)

    def peak_tflops(self, dtype: str, product: Product | None = None) -> float:
        """Dense peak in TFLOP/s at the peak engine clock, derived from the fastest matrix instruction of `dtype`."""
        device = product or self.product
        rate = max(i.flops_per_cycle for i in self.mfma_shapes(dtype))
        return device.compute_units * self.simds_per_cu * rate * device.clock_mhz * 1e6 / 1e12

    def allotted_registers(self, vgprs: int, agprs: int = 0) -> int:
        """Registers per lane that the hardware reserves for one wave.

        The AGPRs of a wave begin at a multiple of 4 after its VGPRs, and the sum is rounded up to the granule
        (LLVM AMDGPUUsage: ACCUM_OFFSET, GRANULATED_WORKITEM_VGPR_COUNT). A wave that uses none still holds one granule.
        """
        total = round_up(vgprs, self.agpr_alignment) + agprs if agprs else vgprs
        return round_up(max(total, 1), self.register_granule)

    def waves_per_simd(self, vgprs: int, agprs: int = 0) -> int:
        """Waves whose registers fit on one SIMD together; 0 where one wave asks for more than can be addressed."""
        if vgprs > self.max_vgprs or agprs > self.max_agprs:
            return 0
        return min(self.registers_per_lane // self.allotted_registers(vgprs, agprs), self.max_waves_per_simd)

    @property
    def line_bytes(self) -> int:
        """Bytes of global memory that are moved together, as `tkgen.predict.throughput` counts them."""
        return LINE_BYTES

    def max_registers(self, waves_per_simd: int) -> int:
        """Most registers per lane, VGPR and AGPR together, at which `waves_per_simd` waves still fit on a SIMD."""
        share = self.registers_per_lane // waves_per_simd
        return share - share % self.register_granule

    def occupancy(self, vgprs: int, lds_bytes: int, waves_per_block: int, agprs: int = 0) -> Occupancy:
        """Blocks and waves resident on one CU. A block's waves spread evenly over the SIMDs of its CU.

        `lds_bytes` is static plus dynamic LDS of one block, `vgprs`/`agprs` are per lane of one wave.
        """
        slots = self.simds_per_cu * self.max_waves_per_simd // waves_per_block
        by_registers = self.simds_per_cu * self.waves_per_simd(vgprs, agprs) // waves_per_block
        by_lds = slots
        if lds_bytes > self.lds_bytes_per_block:
            by_lds = 0
        elif lds_bytes > 0:
            by_lds = self.lds_bytes_per_cu // round_up(lds_bytes, self.lds_granule)
        blocks = min(slots, by_registers, by_lds)
        if blocks == 0:
            limit = "nothing fits"
        elif blocks == slots:
            limit = "waves"
        else:
            limit = "registers" if blocks == by_registers else "lds"
        waves = blocks * waves_per_block
        return Occupancy(blocks, waves, waves / self.simds_per_cu, limit)


def round_up(value: int, granule: int) -> int:
    """The smallest multiple of `granule` that is at least `value`."""
    return -(-value // granule) * granule


def _names_of(backend: str) -> tuple[str, ...]:
    return tuple(name for name in known_names() if target_data(name)["backend"] == backend)


@cache
def target_names() -> tuple[str, ...]:
    """The LLVM names of all AMD targets, sorted."""
    return _names_of("cdna")


@cache
def hopper_names() -> tuple[str, ...]:
    """The names of all NVIDIA targets, sorted."""
    return _names_of("hopper")


@cache
def known_names() -> tuple[str, ...]:
    """The names of all targets of all kinds of machine, sorted: one per complete TOML file of this package."""
    return tuple(name for name in target_files() if not missing(name))


@cache
def load_target(name: str) -> Target:
    """The target called `name` ("gfx942"); UnknownTargetError suggests one where there is none."""
    names = target_names()
    if name in hopper_names():
        raise UnknownTargetError(f"this takes kernels for AMD GPUs ({', '.join(names)}), not for {name}")
    if name not in names:
        raise UnknownTargetError(_suggestion(name, known_names()))
    return _target(target_data(name))


def common(fact: Callable[[Target], int]) -> int:
    """A number that is the same on every target; ValueError where it is not."""
    (number,) = {fact(load_target(name)) for name in target_names()}
    return number


def largest(fact: Callable[[Target], int]) -> int:
    """The largest that a number is on any target."""
    return max(fact(load_target(name)) for name in target_names())


def most_lds_bytes() -> int:
    """The most LDS, or shared memory, that a block has on any target of any kind of machine."""
    tables = [target_data(name) for name in known_names()]
    return max(int(table["lds" if "lds" in table else "shared"]["bytes_per_block"]["value"]) for table in tables)


def most_threads(name: str) -> tuple[int, int]:
    """The threads that a block on a target of any kind of machine has at most, and how many of them are a wave."""
    compute = target_data(name)["compute"]
    lanes = compute["wave_size" if "wave_size" in compute else "warp_size"]
    return int(compute["max_threads_per_block"]["value"]), int(lanes["value"])


def compute_units(name: str) -> int:
    """The compute units, or SMs, of the first product of a target of any kind of machine."""
    product = target_data(name)["product"][0]
    return int(product["compute_units" if "compute_units" in product else "sms"]["value"])


def own_fp8(name: str) -> tuple[str, ...]:
    """The 8-bit floats that a target of any kind of machine knows: its e4m3, then its e5m2; none where it has none."""
    return tuple(target_data(name)["compute"]["own_fp8"]["value"])


def scales_blocks(name: str) -> bool:
    """Return True if matrix instructions of a target scale blocks of their factors by powers of two."""
    return bool(target_data(name)["compute"].get("scales_blocks", {"value": False})["value"])


@dataclass(frozen=True)
class ShortSums:
    """Matrix units that cut sums of products of 8-bit floats off (`tkgen.ir.short_sums`)."""

    depth: int  # products that one instruction adds
    fraction: int  # bits behind the leading one of the largest addend


@cache
def short_sums(back_end: str) -> ShortSums | None:
    """Return the way in which the targets of a back end sum products of 8-bit floats; None if they sum them like
    others.
    """
    for name in known_names():
        data = target_data(name)
        if data["backend"] == back_end and "wgmma" in data:
            of = data["wgmma"]
            return ShortSums(of["depth_bytes"]["value"], of["fp8_fraction"]["value"])
    return None


def mixes_fp8(name: str) -> bool:
    """Return True if the target multiplies an e4m3 by an e5m2."""
    return bool(target_data(name)["compute"]["mixes_fp8"]["value"])


def fp8_cited(name: str) -> str:
    """Return the source of the encoding of 8-bit floats, as a note."""
    return f"source of compute.own_fp8 in targets/{name}.toml: {target_data(name)['compute']['own_fp8']['source']}"


@cache
def product_sides() -> tuple[tuple[int, int], ...]:
    """The (rows, columns) that matrix instructions of some AMD target make, smallest first."""
    return tuple(sorted({(i.m, i.n) for name in target_names() for i in load_target(name).mfmas}))


@cache
def counted() -> Mapping[str, int]:
    """Return the number of operations that each counter of `s_waitcnt` counts on every target, by its name in a
    schedule.

    A wait that leaves as many outstanding waits for nothing: it is the encoding's "do not wait", all bits ones.
    """
    counters = [load_target(name).synchronisation.counters for name in target_names()]
    names = dict.fromkeys(name for known in counters for name in known)
    return MappingProxyType({name: min(known[name] for known in counters if name in known) for name in names})


def _suggestion(name: str, names: tuple[str, ...]) -> str:
    if name in target_files():
        return f"target '{name}' is not complete: targets/{name}.toml lacks\n  " + "\n  ".join(missing(name))
    meant, product = meant_target(name)
    if product == name.upper():
        return f"unknown target '{name}': {product} is {meant}"
    hint = f"; did you mean {meant}?" if meant else ""
    return f"unknown target '{name}', known are {', '.join(names)}{hint}"


def meant_target(name: str) -> tuple[str | None, str | None]:
    """The target that a wrong name probably means ("H100", "mi300", "sm_90"), None where none is near.

    The second value is the product where the name is that of one: ("sm_90a", "H100").
    """
    products = {product["name"]: known for known in known_names() for product in target_data(known)["product"]}
    near = get_close_matches(name.upper(), products, n=1, cutoff=0.8)
    if near:
        return products[near[0]], near[0]
    return next(iter(get_close_matches(name.lower(), known_names(), n=1, cutoff=0.75)), None), None


FIELDS = {
    "machine": "code_object.machine",
    "simds_per_cu": "compute.simds_per_cu",
    "wave_size": "compute.wave_size",
    "max_waves_per_simd": "compute.max_waves_per_simd",
    "max_threads_per_block": "compute.max_threads_per_block",
    "access_bytes": "compute.access_bytes",
    "flushes_f16": "compute.flushes_f16",
    "own_fp8": "compute.own_fp8",
    "scales_blocks": "compute.scales_blocks",
    "mixes_fp8": "compute.mixes_fp8",
    "registers_per_lane": "registers.vector_per_lane",
    "register_granule": "registers.granule",
    "max_vgprs": "registers.max_vgprs",
    "max_agprs": "registers.max_agprs",
    "agpr_alignment": "registers.agpr_alignment",
    "lds_bytes_per_cu": "lds.bytes_per_cu",
    "lds_bytes_per_block": "lds.bytes_per_block",
    "lds_granule": "lds.granule",
    "lds_banks": "lds.banks",
    "lds_bank_bytes": "lds.bank_bytes",
    "lds_read_bytes_per_clock": "lds.read_bytes_per_clock",
    "lds_write_bytes_per_clock": "lds.write_bytes_per_clock",
    "direct_load_bytes": "lds.direct_load_bytes",
    "transposing_reads": "lds.transposing_reads",
    "l2_bytes_per_xcd": "cache.l2_bytes_per_xcd",
    "llc_bytes": "cache.llc_bytes",
}
"""The fact of the file that each field of `Target` is."""


def numbers(data: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """The value of each field, from its fact in a target's file: `compute.wave_size`. Lists become tuples."""
    found = {field: data[(at := key.split("."))[0]][at[1]]["value"] for field, key in fields.items()}
    return {field: tuple(value) if isinstance(value, list) else value for field, value in found.items()}


def _target(data: Mapping[str, Any]) -> Target:
    return Target(
        name=data["name"],
        architecture=data["architecture"],
        dialects=tuple(data["dialects"]),
        kittens_define=data["kittens_define"],
        mfmas=tuple(_mfma(m) for m in data["mfma"]),
        products=tuple(
            Product(name=p["name"], **{key: fact["value"] for key, fact in p.items() if key != "name"})
            for p in data["product"]
        ),
        timing=Timing(**{key: fact["value"] for key, fact in data["timing"].items()}) if "timing" in data else None,
        synchronisation=synchronisation(data),
        sources=MappingProxyType(dict(_sources(data))),
        **numbers(data, FIELDS),
    )


def _mfma(entry: dict[str, Any]) -> Mfma:
    m, n, k = entry["shape"]["value"]
    return Mfma(entry["instruction"], entry["dtype"], m, n, k, entry["cycles"]["value"])


def _sources(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every ("lds.banks", "AMD CDNA3 ISA") of the file."""
    if isinstance(node, Mapping):
        if "value" in node and "source" in node:
            yield path, node["source"]
            return
        for key, child in node.items():
            yield from _sources(child, f"{path}.{key}" if path else key)
    elif isinstance(node, list):
        for child in node:
            if isinstance(child, dict):
                yield from _sources(child, f"{path}.{child.get('name') or child.get('instruction')}")


@dataclass(frozen=True)
class WaveGroups:
    """The groups of a target, and what a block has for them. Bytes, rows and columns throughout."""

    waves: int  # of a group
    rows: int  # of the output, of one matrix instruction
    shared_bytes: int  # of a block
    alignment: int  # of the tiles in it
    panel_bytes: int  # of a row of a panel, in which tiles arrive and outputs leave

    @property
    def wave_rows(self) -> int:
        """Rows of the output that a wave of the group has."""
        return self.rows // self.waves


@cache
def wave_groups(name: str) -> WaveGroups | None:
    """The groups of a target; None where each wave multiplies and loads on its own."""
    data = target_data(name)
    if "wgmma" not in data:
        return None
    shared = data["shared"]
    return WaveGroups(
        waves=data["compute"]["warpgroup_warps"]["value"],
        rows=data["wgmma"]["rows"]["value"],
        shared_bytes=shared["bytes_per_block"]["value"],
        alignment=shared["tile_alignment"]["value"],
        panel_bytes=shared["swizzle_bytes"]["value"],
    )


@dataclass(frozen=True)
class Resources:
    """The resources of one kernel: registers per lane (`sgpr` per wave), scratch per lane, LDS and arguments in bytes.

    `total_vgpr` is what the hardware allots before rounding to its granule: architectural registers, then accumulation
    registers from the next multiple of four. `spills` count registers, `scratch_bytes` includes arrays that were never
    in registers.
    """

    kernel: str
    vgpr: int
    agpr: int
    total_vgpr: int
    sgpr: int
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int
    lds_static_bytes: int
    kernarg_bytes: int
    max_workgroup: int
    wavefront: int
    dynamic_stack: bool

    @property
    def clean(self) -> bool:
        """True where nothing is kept in memory for want of registers: no spill, no scratch, no dynamic stack.

        Scalar registers are spilled to lanes of vector registers while there are any; then there is no scratch.
        """
        return not (self.vgpr_spills or self.scratch_bytes or self.dynamic_stack)
