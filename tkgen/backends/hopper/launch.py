"""A compiled kernel on a Hopper GPU: tensor maps, the argument, the launch. Through torch's context and stream."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from tkgen.backends.hopper.machine import Hopper
from tkgen.ir.equations import Access
from tkgen.ir.kernel_program import KernelProgram
from tkgen.ir.launch import Launch
from tkgen.ir.sizing import Sizing
from tkgen.ir.tensors import DType, Tensor
from tkgen.packages import install_line
from tkgen.toolchain.compiler import ToolchainError

if TYPE_CHECKING:
    import torch

    from tkgen.backends.hopper.build import CudaBuild
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.backends.protocol import Build

MAP_BYTES = 128  # CUtensorMap (cuda.h)
NO_MAP = bytes(MAP_BYTES)  # of a tensor that the copy engine does not move
PAIR_BYTES = 8  # of two neighbouring f32, which epilogues read together
LEAST_ROWS = 8  # of a box for a tile without any row inside
GLOBAL_BYTES = 192  # kittens::gl: the map, an address, rows, columns, depth, batch, padding to the map's alignment


class MapError(ValueError):
    """The copy engine cannot move this tensor; the message says why."""


class Boxes(Protocol):
    """A layout, as far as tensor maps need to know."""

    @property
    def machine(self) -> Hopper:
        """The GPU."""

    @property
    def moved(self) -> Mapping[str, Access]:
        """The accesses of tiles that the copy engine moves, by name."""

    def box(self, tensor: Tensor) -> tuple[int, int]:
        """Rows and columns of one box of the copy engine."""

    def row_bytes(self, tensor: Tensor) -> int:
        """Bytes of a row of a box, within which the copy engine exchanges chunks."""

    def rows_along(self, access: Access) -> int:
        """The dimension of batch, depth, rows and columns along which the rows of a tile lie: 0, 1 or 2."""

    def grouped(self, access: Access) -> bool:
        """True if the rows of a tile are of a group, which ends where its last row is."""

    @property
    def clusters(self) -> int:
        """Blocks of a cluster."""

    @property
    def ended(self) -> Sequence[str]:
        """The tensors, by name, that have a second map, for boxes of the last tile's rows."""


def problems(
    layout: Boxes, tensor: Tensor, rows: int, cols: int, address: int = 0, strides: Sequence[int] = ()
) -> list[str]:
    """Reasons for which `cuTensorMapEncodeTiled` would refuse a tensor, as text; sizes in elements.

    `strides` are bytes from one row to the next, then those of the outer dimensions; without any, rows are adjacent.
    """
    machine, size = layout.machine, tensor.dtype.bytes
    box, found = layout.box(tensor), []
    pitch, *outer = strides or [cols * size]
    if pitch % machine.stride_alignment:
        found.append(
            f"a row of `{tensor.name}` is {pitch} bytes, which is not a multiple of {machine.stride_alignment}"
        )
    if max(pitch, cols * size) >= machine.most_stride:
        found.append(f"a row of `{tensor.name}` is {pitch} bytes, not less than {machine.most_stride}")
    if pitch < cols * size:
        found.append(f"rows of `{tensor.name}` overlap")
    if any(not 0 < each < machine.most_stride or each % machine.stride_alignment for each in outer):
        found.append(f"`{tensor.name}` has strides of {', '.join(map(str, outer))} bytes, not multiples of "
                     f"{machine.stride_alignment} below {machine.most_stride}")  # fmt: skip
    if address % machine.stride_alignment:
        found.append(f"`{tensor.name}` does not start at a multiple of {machine.stride_alignment} bytes")
    if max(box) > machine.max_box:
        found.append(f"a tile of `{tensor.name}` has a side of {max(box)}; a box of the copy engine has "
                     f"at most {machine.max_box}")  # fmt: skip
    if box[1] * size != layout.row_bytes(tensor):
        found.append(f"a row of a box of `{tensor.name}` is {box[1] * size} bytes, not {layout.row_bytes(tensor)}")
    return found


def driver() -> Any:
    """NVIDIA's bindings of the CUDA driver. Raises ToolchainError where they are not installed."""
    try:
        from cuda.bindings import driver
    except ImportError:
        raise ToolchainError(f"launching on this GPU needs cuda-bindings: {install_line('cuda')}") from None
    return driver


def need_gpu(capability: tuple[int, int] = (9, 0)) -> None:
    """Raises ToolchainError where torch has no Hopper GPU here."""
    import torch

    if not torch.cuda.is_available() or torch.version.cuda is None:
        raise ToolchainError("torch finds no NVIDIA GPU here (it needs a CUDA build of torch and the driver)")
    found = torch.cuda.get_device_capability()
    if found != capability:
        raise ToolchainError(f"{torch.cuda.get_device_name()} is of compute capability {found[0]}.{found[1]}, "
                             f"but these kernels are for {capability[0]}.{capability[1]}")  # fmt: skip


def _done(result: tuple[Any, ...], what: str) -> Any:
    """The value of a call of the driver. Raises ToolchainError where it failed."""
    status, *values = result
    if int(status) != 0:
        raise ToolchainError(f"{what}: {status.name}")
    return values[0] if values else None


@dataclass(frozen=True)
class TensorMap:
    """Description of a tensor for the copy engine, innermost dimension first; strides, in bytes, of all except that
    one.

    `address` is as many bytes `before` the tensor's.
    """

    name: str
    dtype: DType
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int  # bytes of a row within which chunks are exchanged
    problems: tuple[str, ...]
    before: int = 0

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.sizes)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.dtype.bytes


def described(layout: Boxes, tensor: Tensor, data: torch.Tensor, end: bool = False) -> TensorMap:
    """The map of a tensor for boxes of its tile's panels: of two dimensions for a matrix, else of four.

    Boxes at the `end` have as many rows as the last tile has inside, or `LEAST_ROWS` (`tk::boxes_of` is the same in
    C++).

    The rows of groups have five. A copy of rows of a group begins at i along the dimension of the rows, and at j along
    the fifth, which has the same stride: at row i + j. Rows end there where the dimension of the rows does, whatever j
    is. So that i is as much less than its size as the group has rows from there on, the map begins as many rows before
    the tensor as that has: the group's end is j.
    """
    *_, rows, cols = data.shape
    access = layout.moved[tensor.name]
    along, grouped = layout.rows_along(access), layout.grouped(access)
    sizes, rank = [1, 1, *data.shape][-4:], 2 if data.dim() == 2 and not grouped else 4
    strides = [tensor.dtype.bytes]  # of columns, rows, depth, batch
    for size, stride, inner in zip(sizes[2::-1], [*data.stride()[-2::-1], 0, 0, 0], sizes[:0:-1], strict=False):
        strides.append(stride * tensor.dtype.bytes if size > 1 else inner * strides[-1])
    found = problems(layout, tensor, rows, cols, data.data_ptr(), strides[1:rank])
    if cols > 1 and data.stride(-1) != 1:
        found.append(f"columns of `{tensor.name}` are not contiguous")
    box = [1, 1, 1, layout.box(tensor)[1]]
    box[along] = layout.box(tensor)[0]
    if end:
        box[along] = sizes[along] % box[along] or LEAST_ROWS
    before = 0
    if grouped:
        before = sizes[along] * strides[3 - along]
        sizes, box, rank = [sizes[along] + 1, *sizes], [1, *box], 5
        strides.append(strides[3 - along])
        if before > data.data_ptr() > 0:
            found.append(f"`{tensor.name}` is less than {before} bytes, its own size, from address 0")
    return TensorMap(
        tensor.name, tensor.dtype, data.data_ptr() - before, tuple(sizes[: -rank - 1 : -1]), tuple(strides[1:rank]),
        tuple(box[: -rank - 1 : -1]), layout.row_bytes(tensor), tuple(found), before,
    )  # fmt: skip


def tensor_map(layout: Boxes, tensor: Tensor, data: torch.Tensor, end: bool = False) -> bytes:
    """The driver's map of a tensor, or of its `end`.

    Raises:
        MapError: the copy engine cannot move it.
    """
    cuda = driver()
    what = described(layout, tensor, data, end)
    if what.problems:
        raise MapError("; ".join(what.problems))
    types = cuda.CUtensorMapDataType
    kinds = {
        DType.BF16: types.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType.F16: types.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType.F32: types.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType.E4M3FN: types.CU_TENSOR_MAP_DATA_TYPE_UINT8,  # bytes: zero outside of a tensor is the number 0, too
        DType.E5M2: types.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DType.I8: types.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DType.I32: types.CU_TENSOR_MAP_DATA_TYPE_INT32,
    }
    made = _done(
        cuda.cuTensorMapEncodeTiled(
            kinds[what.dtype], what.rank, what.address,
            [cuda.cuuint64_t(n) for n in what.sizes], [cuda.cuuint64_t(n) for n in what.strides],
            [cuda.cuuint32_t(n) for n in what.box], [cuda.cuuint32_t(1)] * what.rank,
            cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{what.swizzle}B"),
            cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        f"the tensor map of `{tensor.name}`",
    )  # fmt: skip
    return ctypes.string_at(made.getPtr(), MAP_BYTES)


def packed(
    layout: Boxes | None, program: KernelProgram, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float],
    alignment: int,
) -> bytes:  # fmt: skip
    """The argument of a kernel."""
    maps = members(layout, program, tensors, tensor_map)
    return argument(maps, tensors, [scalars[s.name] for s in program.scalars], alignment)


@dataclass(frozen=True)
class PassedTensor:
    """A tensor in the argument of a kernel: with the map of its tiles, or that of its last ones, if any."""

    tensor: Tensor
    end: bool = False

    @property
    def name(self) -> str:
        """That of the tensor."""
        return self.tensor.name


MakeMap = Callable[["Boxes", Tensor, "torch.Tensor", bool], bytes]


def members(
    layout: Boxes | None, program: KernelProgram, tensors: Mapping[str, torch.Tensor], made: MakeMap
) -> dict[PassedTensor, bytes]:
    """The tensors of a kernel's argument in their order, which scalars follow, with the maps `made` of them."""
    every = map(PassedTensor, program.arguments)
    if layout is None:
        return dict.fromkeys(every, NO_MAP)
    ends = (PassedTensor(t, end=True) for t in program.arguments if t.name in layout.ended)
    return {
        m: made(layout, m.tensor, tensors[m.name], m.end) if m.name in layout.moved else NO_MAP for m in (*every, *ends)
    }


def unread(layout: Boxes, member: PassedTensor, data: torch.Tensor) -> bool:
    """True if a launch does not read that member: an end's, where all tiles have all of their rows.

    Blocks of a cluster may have tiles without any row.
    """
    if not member.end or layout.clusters > 1:
        return False
    size = int([1, 1, *data.shape][-4:][layout.rows_along(layout.moved[member.name])])
    return size % layout.box(member.tensor)[0] == 0


def argument(
    maps: Mapping[PassedTensor, bytes], tensors: Mapping[str, torch.Tensor], scalars: Sequence[float], alignment: int
) -> bytes:
    """A kernel's one argument, laid out as the generated `globals` is, of its members in order with their maps."""
    parts = []
    for member, tensor_map in maps.items():
        data = tensors[member.name]
        batch, depth, rows, cols = [1, 1, 1, *data.shape][-4:]
        part = tensor_map + struct.pack("<Qiiii", data.data_ptr(), rows, cols, depth, batch)
        parts.append(part.ljust(GLOBAL_BYTES, b"\0"))
    parts += [struct.pack("<f", value) for value in scalars]
    whole = b"".join(parts)
    return whole.ljust(-(-len(whole) // alignment) * alignment, b"\0")


def _checked(launch: Launch[Any], tensors: Mapping[str, torch.Tensor], spec: HopperSpec[Any]) -> None:
    """Raises ValueError for tensors that the kernel, built for these sizes, would read or write past."""
    from tkgen.ir.rounding import TORCH

    for tensor in launch.program.arguments:
        data = tensors[tensor.name]
        if list(data.shape) != launch.shape(tensor) or data.dtype != TORCH[tensor.dtype]:
            raise ValueError(f"`{tensor.name}` is {list(data.shape)} of {data.dtype}, "
                             f"not {launch.shape(tensor)} of {TORCH[tensor.dtype]}")  # fmt: skip
        if not data.is_contiguous() or not data.is_cuda:
            raise ValueError(f"`{tensor.name}` is not a contiguous tensor on the GPU")
        if data.data_ptr() % (alignment := spec.aligned_bytes(tensor.name)):
            raise ValueError(f"`{tensor.name}` does not start at a multiple of {alignment} bytes")


def launcher(
    build: Build, launch: Sizing, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> Callable[[], None]:
    """A function that launches the kernels of a build in order, on these tensors, their outputs among them, on torch's
    current stream.

    Raises:
        ValueError: tensors of other sizes, types or devices; MapError where the copy engine cannot move one.
        ToolchainError: the driver refuses the kernel or the launch.
    """
    driver()
    each: list[Callable[[], object]] = []
    for kernel, one in zip(build.kernels, launch.launches, strict=True):
        if one is not launch:  # of a kernel alone the caller sets what it adds to
            each += [partial(tensors[name].fill_, start) for name, start in sorted(one.program.starts.items())]
        each.append(_launcher(cast("CudaBuild[HopperSpec[Any]]", kernel), one, tensors, scalars))

    def start() -> None:
        for step in each:
            step()

    return start if len(each) > 1 else each[0]  # type: ignore[return-value]


def _launcher(
    build: CudaBuild[HopperSpec[Any]], launch: Launch[Any], tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, float],
) -> Callable[[], None]:  # fmt: skip
    spec, program = build.spec, launch.program
    own = {t.name: tensors[t.name] for t in program.arguments}
    _checked(launch, own, spec)
    whole = packed(spec.boxes, program, own, scalars, spec.target.map_alignment)
    return started(build, spec.blocks(launch), whole, own)


def started(
    build: CudaBuild[HopperSpec[Any]], blocks: int, whole: bytes, tensors: Mapping[str, torch.Tensor]
) -> Callable[[], None]:
    """A function that launches a kernel with this argument. Raises ToolchainError as `launcher`."""
    import torch

    cuda = driver()
    held = ctypes.create_string_buffer(whole)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(held))
    loaded = function(cuda, build)
    kept = (held, pointers, dict(tensors))  # addresses of all three are held by what has none of them
    device = next(iter(tensors.values())).device
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.blockDimX, config.sharedMemBytes = blocks, build.threads, build.dynamic_bytes
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    if build.spec.beside.before:
        early = cuda.CUlaunchAttribute()
        early.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        early.value.programmaticStreamSerializationAllowed = 1
        config.attrs, config.numAttrs = [early], 1

    def start() -> None:
        config.hStream = torch.cuda.current_stream(device).cuda_stream
        launched = cuda.cuLaunchKernelEx(config, loaded, ctypes.addressof(kept[1]), 0)
        _done(launched, f"launching {build.spec.name}")

    return start


def function(cuda: Any, build: CudaBuild[HopperSpec[Any]]) -> Any:
    """The kernel, loaded into the current context once for the same machine code."""
    key = int(_done(cuda.cuCtxGetCurrent(), "the current context")), build.cubin
    if key not in _loaded:
        module = _done(cuda.cuModuleLoadData(build.cubin), f"loading {build.spec.name}")
        found = _done(cuda.cuModuleGetFunction(module, build.figures.kernel.encode()), "finding the kernel")
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _done(cuda.cuFuncSetAttribute(found, attribute, build.dynamic_bytes), "shared memory")
        _loaded[key] = module, found
    return _loaded[key][1]


# Modules stay loaded as long as the process.
_loaded: dict[tuple[int, bytes], tuple[Any, Any]] = {}
