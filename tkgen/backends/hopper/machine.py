"""Hopper GPU for the compiler, read from its TOML file: every number there has its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from tkgen.targets.facts import target_data
from tkgen.targets.model import UnknownTargetError, numbers
from tkgen.targets.synchronisation import Synchronisation, synchronisation


@dataclass(frozen=True)
class HopperProduct:
    """One device sold with this architecture."""

    name: str
    l2_bytes: int
    clock_mhz: int
    sms: int
    peak_tflops: float
    peak_fp8_tflops: float
    hbm_tbps: float
    timed_as: str  # the product whose measurements its predictions take

    @property
    def compute_units(self) -> int:
        """Its SMs."""
        return self.sms

    @property
    def xcds(self) -> int:
        """Dies with a separate L2: one."""
        return 1


@dataclass(frozen=True)
class HopperTiming:
    """Numbers that predictions need beside data sheets; units and sources are in the file, entry by entry."""

    product: str
    launch_us: float
    early_launch_us: float
    turn_us: float
    meeting_ns: float
    block_us: float
    copy_latency_ns: float
    copy_tbps: float
    consumer_ns: float
    fresh_rows_ns: float
    fresh_columns_ns: float
    l2_tbps: float
    request_cycles: float
    panel_ns: float
    hbm_latency_ns: float
    load_latency_ns: float
    l2_write_tbps: float
    read_efficiency: float
    copy_efficiency: float
    matrix_efficiency: float
    matrix_chain_cycles: float
    lone_cycles: float
    hidden_products: float
    mufu_lanes: int
    max_clock_mhz: int
    power_limit_w: float
    idle_w: float
    memory_pj_per_byte: float
    matrix_w: float
    vector_w: float
    power_clock_mhz: int
    power_exponent: float


@dataclass(frozen=True)
class Hopper:
    """A Hopper architecture. Bytes, registers per thread, lanes and threads throughout."""

    name: str
    architecture: str
    warp_size: int
    warpgroup_warps: int
    max_threads_per_block: int
    sub_partitions: int
    max_warps_per_sub_partition: int
    line_bytes: int
    max_blocks_per_sm: int
    named_barriers: int
    own_fp8: tuple[str, ...]
    mixes_fp8: bool
    registers_per_sm: int
    max_registers: int
    register_granule: int
    least_registers: int
    shared_bytes_per_sm: int
    shared_overhead: int
    shared_bytes_per_block: int
    tile_alignment: int
    swizzle_bytes: int
    max_box: int
    stride_alignment: int
    most_stride: int
    map_alignment: int
    wgmma_rows: int
    wgmma_columns: tuple[int, ...]
    fused_columns: tuple[int, ...]
    wgmma_depth_bytes: int
    fp8_fraction: int
    timing: HopperTiming
    products: tuple[HopperProduct, ...]
    synchronisation: Synchronisation
    sources: dict[str, str] = field(repr=False, compare=False)

    @property
    def product(self) -> HopperProduct:
        """The default device, the first in the file."""
        return self.products[0]

    @property
    def warpgroup_threads(self) -> int:
        """Threads that issue one wgmma together."""
        return self.warpgroup_warps * self.warp_size

    @property
    def lanes(self) -> SmLanes:
        """Numbers of the machine for a layout of rows over lanes."""
        return SmLanes(self)

    def product_named(self, name: str) -> HopperProduct:
        """One of its devices. Raises UnknownTargetError."""
        for product in self.products:
            if product.name.casefold() == name.casefold():
                return product
        known = ", ".join(p.name for p in self.products)
        raise UnknownTargetError(f"{self.name} has no product '{name}'; it has {known}")

    def blocks_per_sm(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Blocks that share an SM, by their threads, registers of a thread at launch, and bytes of shared memory."""
        granules = -(-registers // self.register_granule) * self.register_granule
        by_threads = self.sub_partitions * self.max_warps_per_sub_partition * self.warp_size // threads
        by_registers = self.registers_per_sm // (granules * threads)
        by_shared = self.shared_bytes_per_sm // (shared_bytes + self.shared_overhead)
        return min(self.max_blocks_per_sm, by_threads, by_registers, by_shared)

    def cited(self, key: str) -> str:
        """The source of a number in the file, as a note: `cited("shared.bytes_per_block")`."""
        return f"source of {key} in targets/{self.name}.toml: {self.sources[key]}"


@dataclass(frozen=True)
class SmLanes:
    """An SM in the words of `tkgen.schedule.rows.LaneTarget`: its sub-partitions are SIMDs, its warps waves."""

    machine: Hopper

    @property
    def name(self) -> str:
        """As specs and options say it."""
        return self.machine.name

    @property
    def wave_size(self) -> int:
        """Lanes of a warp."""
        return self.machine.warp_size

    @property
    def simds_per_cu(self) -> int:
        """Sub-partitions of an SM."""
        return self.machine.sub_partitions

    @property
    def max_waves_per_simd(self) -> int:
        """Warps that share a sub-partition at most."""
        return self.machine.max_warps_per_sub_partition

    @property
    def max_vgprs(self) -> int:
        """Registers of a lane at most."""
        return self.machine.max_registers

    @property
    def line_bytes(self) -> int:
        """Bytes of global memory that are moved together."""
        return self.machine.line_bytes

    @property
    def synchronisation(self) -> Synchronisation:
        """The ways in which warps wait for each other."""
        return self.machine.synchronisation

    def max_registers(self, waves_per_simd: int) -> int:
        """Most registers of a lane with which `waves_per_simd` warps share a sub-partition."""
        share = self.machine.registers_per_sm // (self.simds_per_cu * self.wave_size * waves_per_simd)
        return min(share - share % self.machine.register_granule, self.max_vgprs)


FIELDS = {
    "warp_size": "compute.warp_size",
    "warpgroup_warps": "compute.warpgroup_warps",
    "max_threads_per_block": "compute.max_threads_per_block",
    "sub_partitions": "compute.sub_partitions",
    "max_warps_per_sub_partition": "compute.max_warps_per_sub_partition",
    "line_bytes": "compute.line_bytes",
    "max_blocks_per_sm": "compute.max_blocks_per_sm",
    "named_barriers": "compute.named_barriers",
    "own_fp8": "compute.own_fp8",
    "mixes_fp8": "compute.mixes_fp8",
    "registers_per_sm": "registers.per_sm",
    "max_registers": "registers.max_per_thread",
    "register_granule": "registers.granule",
    "least_registers": "registers.least_per_thread",
    "shared_bytes_per_sm": "shared.bytes_per_sm",
    "shared_overhead": "shared.block_overhead",
    "shared_bytes_per_block": "shared.bytes_per_block",
    "tile_alignment": "shared.tile_alignment",
    "swizzle_bytes": "shared.swizzle_bytes",
    "max_box": "copies.max_box",
    "stride_alignment": "copies.stride_alignment",
    "most_stride": "copies.most_stride",
    "map_alignment": "copies.map_alignment",
    "wgmma_rows": "wgmma.rows",
    "wgmma_columns": "wgmma.columns",
    "fused_columns": "wgmma.fused_columns",
    "wgmma_depth_bytes": "wgmma.depth_bytes",
    "fp8_fraction": "wgmma.fp8_fraction",
}
"""Which number of the file each field of `Hopper` is."""


@cache
def load_hopper(name: str = "sm_90a") -> Hopper:
    """The architecture of that name, which is one of `tkgen.targets.hopper_names()`."""
    data = target_data(name)
    products = tuple(
        HopperProduct(name=p["name"], **{key: fact["value"] for key, fact in p.items() if key != "name"})
        for p in data["product"]
    )
    sources = {f"{s}.{e}": fact["source"] for s in ("compute", "registers", "shared", "copies", "wgmma", "timing")
               for e, fact in data[s].items()}  # fmt: skip
    timing = HopperTiming(**{key: fact["value"] for key, fact in data["timing"].items()})
    return Hopper(name=data["name"], architecture=data["architecture"], timing=timing, products=products,
                  synchronisation=synchronisation(data), sources=sources, **numbers(data, FIELDS))  # fmt: skip
