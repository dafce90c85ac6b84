"""The predicted time of a build of products of products: its launch and its loop, given to `tkgen.predict.loops`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import product as combinations

from tkgen.ir.equations import Axis
from tkgen.loops.build import LoopBuild
from tkgen.predict.loops import LoopModel, LoopPrediction, LoopWorkload
from tkgen.rows.launch import RowLaunch
from tkgen.rows.prediction import arguments, launch_at


def predict_build(
    build: LoopBuild, sizes: Mapping[str, int] | None = None, product: str | None = None
) -> LoopPrediction:
    """The predicted time of `build` on a product of its target (the first without a name).

    Raises:
        PredictError: the target has no timing data, or the kernel cannot do the sizes.
        UnknownTargetError: it has no such product.
    """
    return model(build, sizes, product).prediction()


def model(build: LoopBuild, sizes: Mapping[str, int] | None = None, product: str | None = None) -> LoopModel:
    """The model of `build` on a product of its target. Raises as `predict_build`."""
    target = build.spec.target
    chosen = target.product_named(product) if product else target.product
    return LoopModel(_workload(build, launch_at(build, sizes)), target, chosen)


def _workload(build: LoopBuild, launch: RowLaunch) -> LoopWorkload:
    kernel, layout = launch.program.kernel, build.spec.layout
    passes, longest = _passes(launch, layout.loop.axis)
    moving = {ring.access.tensor for ring in layout.moving}
    indices = [index for ring in layout.moving for index in ring.access.indices]

    def walks(block: int) -> Hashable:
        place = launch.place(block)
        along = tuple(place[i.axis] // i.divisor for i in indices if i.axis in place)
        return (*along, place[kernel.groups]) if kernel.groups is not None else along

    return LoopWorkload(
        name=build.spec.name,
        hsaco=build.hsaco,
        kernel=build.resources.kernel,
        waves=layout.waves,
        blocks=launch.blocks,
        blocks_per_cu=build.occupancy.blocks_per_cu,
        dtype=layout.multiplications[0].moving.access.tensor.dtype.spelling,
        passes=sum(passes) / len(passes),
        most=max(passes),
        unrolled=layout.unrolled,
        longest=longest,
        read_bytes=sum(map(launch.bytes, kernel.inputs)),
        written_bytes=sum(launch.bytes(t) * (1 + (t.name in kernel.added)) for t in kernel.outputs),  # zeros, then sums
        moving_bytes=sum(map(launch.bytes, moving)),
        sizes=tuple(launch.extents.items()),
        walks=walks,
        arguments=arguments(launch),
    )


def _passes(launch: RowLaunch, axis: Axis) -> tuple[list[int], int]:
    """How many tiles of the loop blocks visit, alike for all that differ along other axes than its bounds and parts
    name, and groups; and a block that visits most. Blocks for which no group has a tile visit none."""
    walked, groups = launch.walked, launch.program.kernel.groups
    told = {axis.part, *(b.axis for b in axis.bounds)}
    bounding = [a for a in launch.program.parallel if a == walked or a.name in told]
    counts: dict[tuple[int, ...], int] = {}
    for group in range(launch.group_count):
        size = len(launch.groups(axis)[group]) if axis.within else launch.extents[axis.dim.name]
        tiled = [-(-len(launch.groups(a)[group]) // (a.tile or 1)) if a.within else launch.tiles(a) for a in bounding]
        for at in combinations(*map(range, tiled)):
            tiles = {
                a.name: range(n * (a.tile or 1), (n + 1) * (a.tile or 1)) for a, n in zip(bounding, at, strict=True)
            }
            longer, own = size - _bounding_length(launch, axis, group), range(size)
            if axis.part is not None:
                (part,) = tiles[axis.part]
                run = axis.part_length(size, next(launch.tiles(a) for a in bounding if a.name == axis.part))
                own = own[part * run : (part + 1) * run]
            starts = own[:: axis.tile or 1]
            counts[group, *at] = sum(axis.visits(start, tiles, longer) for start in starts)
    most = max(counts, key=lambda at: counts[at])
    place = dict.fromkeys(launch.program.parallel, 0) | dict(zip(bounding, most[1:], strict=True))
    place |= {groups: most[0]} if groups is not None else {}
    idle = launch.tiles(walked) - len(counts) if walked is not None and bounding == [walked] else 0
    return [*counts.values(), *([0] * idle)], launch.number(place)


def _bounding_length(launch: RowLaunch, axis: Axis, group: int) -> int:
    """How many places the axis has that bounds of a loop name; none where there are none."""
    of = next((a for a in launch.program.parallel if a.name in {b.axis for b in axis.bounds}), None)
    if of is None:
        return 0
    return len(launch.groups(of)[group]) if of.within else launch.extents[of.dim.name]
