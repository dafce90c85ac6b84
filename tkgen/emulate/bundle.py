"""Offload bundles: code objects for several GPUs in one file (LLVM, "Clang Offload Bundler")."""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
import zlib
from typing import Final

from tkgen.emulate.errors import EmulateError

_MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED: Final = b"CCOB"
_HEADERS: Final = {
    1: ("<IQ", 0),
    2: ("<IIQ", 1),
    3: ("<QQQ", 1),
}  # by version: the sizes and the hash; which is the size
_ZLIB, _ZSTD = 0, 1
_MOST: Final = 1 << 30  # bytes that a bundle may have


def unbundle(data: bytes, name: str, target: str | None = None) -> bytes:
    """The code object for `target` in an offload bundle, else the only one that it has; what is no bundle as it is.

    Raises EmulateError, also struct.error and ValueError for a damaged bundle.
    """
    if data.startswith(_COMPRESSED):
        data = _decompressed(data, name)
    if not data.startswith(_MAGIC):
        return data
    entries = _entries(data)
    if target is not None:
        for gpu, code in entries:
            if gpu == target:
                return code
        listed = ", ".join(gpu for gpu, _ in entries) or "no GPU"
        raise EmulateError(f"{name} has no code for {target}; it has code for {listed}")
    if len(entries) != 1:
        raise EmulateError(f"{name} bundles code for {len(entries)} GPUs; unpack one with clang-offload-bundler")
    return entries[0][1]


def targets(data: bytes, name: str) -> list[str]:
    """The GPUs for which a bundle has code; none where it is no bundle."""
    if data.startswith(_COMPRESSED):
        data = _decompressed(data, name)
    return [gpu for gpu, _ in _entries(data)] if data.startswith(_MAGIC) else []


def _entries(data: bytes) -> list[tuple[str, bytes]]:
    """The GPU, without its features, and the code object of each entry that is for one."""
    (count,) = struct.unpack_from("<Q", data, 24)
    at, found = 32, []
    for _ in range(min(count, 64)):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        triple = data[at + 24 : at + 24 + length].decode("ascii", "replace")
        at += 24 + length
        if "amdgcn" in triple and size:
            gpu = triple.rpartition("--")[2] if "--" in triple else triple.rpartition("-")[2]
            found.append((gpu.partition(":")[0], data[offset : offset + size]))
    return found


def _decompressed(data: bytes, name: str) -> bytes:
    version, method = struct.unpack_from("<HH", data, 4)
    if version not in _HEADERS:
        raise EmulateError(f"{name} is a compressed offload bundle of version {version}; known are 1 to 3")
    layout, which = _HEADERS[version]
    size = struct.unpack_from(layout, data, 8)[which]
    body = data[8 + struct.calcsize(layout) :]
    if size > _MOST:
        raise EmulateError(f"{name} has {size} bytes; {_MOST} at most")
    if method == _ZLIB:
        return zlib.decompressobj().decompress(body, size)
    if method == _ZSTD:
        return _zstd(body, size, name)
    raise EmulateError(f"{name} is compressed by an unknown method, number {method}")


def _zstd(body: bytes, size: int, name: str) -> bytes:
    """Decompressed by the system's libzstd, of which Python 3.11 knows nothing."""
    found = ctypes.util.find_library("zstd")
    if found is None:
        raise EmulateError(f"{name} is compressed by zstd, and libzstd is not here: apt-get install libzstd1")
    library = ctypes.CDLL(found)
    library.ZSTD_findFrameCompressedSize.restype = library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_findFrameCompressedSize.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    library.ZSTD_decompress.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    out = ctypes.create_string_buffer(size)
    frame = library.ZSTD_findFrameCompressedSize(body, len(body))
    if library.ZSTD_decompress(out, size, body, min(frame, len(body))) != size:
        raise EmulateError(f"{name} is damaged: zstd cannot decompress it")
    return out.raw
