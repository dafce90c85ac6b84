"""The resources of the kernels of a code object: registers, spills, scratch, LDS, from its AMDGPU metadata note.

The note is MessagePack in an ELF note of type 32, owner "AMDGPU"; its keys are described in LLVM's AMDGPUUsage,
"Code Object V3 Metadata" and later.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from tkgen.targets.model import Resources
from tkgen.toolchain.compiler import ToolchainError

_NT_AMDGPU_METADATA = 32  # LLVM AMDGPUUsage, "Note Records"
_EM_AMDGPU = "EM_AMDGPU"


def read_resources(hsaco: bytes) -> dict[str, Resources]:
    """The kernels of a code object by name, in its order. ToolchainError where it is none or is damaged."""
    metadata = read_metadata(hsaco)
    try:
        return {k[".name"]: _resources(k) for k in metadata["amdhsa.kernels"]}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ToolchainError(f"the code object's metadata is damaged: {error!r}") from error


def read_target(hsaco: bytes) -> str:
    """The LLVM target name that a code object was built for, "gfx942"; ToolchainError where it says none."""
    name = str(read_metadata(hsaco).get("amdhsa.target", ""))
    processor = name.rpartition("--")[2].partition(":")[0]
    if not processor:
        raise ToolchainError("the code object's metadata names no target")
    return processor


def read_metadata(hsaco: bytes) -> dict[str, Any]:
    """The decoded metadata map of a code object. ToolchainError where it is none or is damaged."""
    import msgpack  # only builds read code objects
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(hsaco))
        if elf["e_machine"] != _EM_AMDGPU:
            raise ToolchainError(f"not an AMDGPU code object: machine {elf['e_machine']}")
        for descriptor in _notes(elf):
            decoded = msgpack.unpackb(descriptor, raw=False, strict_map_key=False)
            if isinstance(decoded, dict):
                return decoded
    except ToolchainError:
        raise
    # pyelftools and msgpack meet damaged bytes with whatever their parsing runs into, construct's errors included.
    except (ELFError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, OSError) as error:
        raise ToolchainError(f"the code object is damaged: {error}") from error
    except Exception as error:  # construct's and msgpack's own classes derive from Exception alone
        if type(error).__module__.partition(".")[0] in ("elftools", "msgpack"):
            raise ToolchainError(f"the code object is damaged: {error}") from error
        raise
    raise ToolchainError("the code object has no AMDGPU metadata")


def _notes(elf: Any) -> Iterator[bytes]:
    for segment in elf.iter_segments():
        if segment["p_type"] != "PT_NOTE":
            continue
        for note in segment.iter_notes():
            if note["n_type"] == _NT_AMDGPU_METADATA and note["n_name"] == "AMDGPU":
                desc = note["n_desc"]
                yield desc if isinstance(desc, bytes) else desc.encode("latin-1")


def _resources(kernel: dict[str, Any]) -> Resources:
    total, agpr = int(kernel[".vgpr_count"]), int(kernel.get(".agpr_count", 0))
    return Resources(
        kernel=str(kernel[".name"]),
        vgpr=total - agpr,
        agpr=agpr,
        total_vgpr=total,
        sgpr=int(kernel[".sgpr_count"]),
        vgpr_spills=int(kernel.get(".vgpr_spill_count", 0)),
        sgpr_spills=int(kernel.get(".sgpr_spill_count", 0)),
        scratch_bytes=int(kernel[".private_segment_fixed_size"]),
        lds_static_bytes=int(kernel[".group_segment_fixed_size"]),
        kernarg_bytes=int(kernel[".kernarg_segment_size"]),
        max_workgroup=int(kernel[".max_flat_workgroup_size"]),
        wavefront=int(kernel[".wavefront_size"]),
        dynamic_stack=bool(kernel.get(".uses_dynamic_stack", False)),
    )
