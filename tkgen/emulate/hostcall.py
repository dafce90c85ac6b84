"""Calls of the host by kernels: `printf` and `assert` of HIP's own headers.

A wave takes a packet from a stack of free ones, fills it, puts it on another stack and interrupts the host; then it
waits until the packet's control word says that it was answered. The layout is that of `__ockl_hostcall_internal` in
ROCm's device libraries: buffer, headers (next packet, mask of lanes, service, control) and payloads (eight dwordx2 for
each of 64 lanes).
"""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Final

import numpy as np

from tkgen.emulate.conversions import FLOAT, SIGNED, formatted

_PACKETS: Final = 64  # a power of two
_HEADER, _PAYLOAD = 24, 64 * 8 * 8
_FREE, _READY, _MASK = 24, 32, 40  # offsets in the buffer: stacks, index mask
_SIGNAL: Final = 64  # amd_signal_t: value at 8, address of a mailbox at 16
_MAILBOX: Final = 128
_HEADERS: Final = 192
_PAYLOADS: Final = _HEADERS + _PACKETS * _HEADER
_BYTES: Final = _PAYLOADS + _PACKETS * _PAYLOAD
_PRINTF: Final = 2  # the only service that is there
_BEGIN, _END, _LENGTH, _NUMBER = 1, 2, 5, 8  # of a message's descriptor: two bits, and where its length and number are
_CALLBACK: Final = ctypes.CFUNCTYPE(None)


class Host:
    """The host of one launch: its buffer, at `base` for kernels, the text that they print, and what it `refused`."""

    def __init__(self, base: int):
        self.data = bytearray(_BYTES)
        self.memory = np.frombuffer(self.data, np.uint8)  # the same bytes, for the core
        self.text, self.refused = "", ""
        self.messages: dict[int, list[int]] = {}
        self.lock = threading.Lock()
        self.numbers = 0
        self.call = _CALLBACK(self._answer)
        self.interrupt = ctypes.cast(self.call, ctypes.c_void_p).value or 0
        pointers = [_PACKETS | i for i in range(_PACKETS)]  # the bits above the index are a tag, never zero
        self._put(0, base + _HEADERS, base + _PAYLOADS, base + _SIGNAL, pointers[-1], 0, _PACKETS - 1)
        self._put(_SIGNAL + 16, base + _MAILBOX)
        for i in range(1, _PACKETS):
            self._put(_HEADERS + i * _HEADER, pointers[i - 1])

    def _put(self, at: int, *values: int) -> None:
        struct.pack_into(f"<{len(values)}Q", self.data, at, *values)

    def _get(self, at: int, layout: str = "Q") -> tuple[int, ...]:
        return struct.unpack_from(f"<{layout}", self.data, at)

    def _answer(self) -> None:
        """Answer all packets that are ready."""
        with self.lock:
            (packet,) = self._get(_READY)
            self._put(_READY, 0)
            while packet:
                index = packet & (_PACKETS - 1)
                at = _HEADERS + index * _HEADER
                packet, lanes, service, control = self._get(at, "QQII")
                for lane in range(64):
                    if lanes >> lane & 1:
                        self._serve(service, _PAYLOADS + index * _PAYLOAD + lane * 64)
                struct.pack_into("<I", self.data, at + 20, control & ~1)

    def _serve(self, service: int, at: int) -> None:
        """One lane's part of a packet."""
        if service != _PRINTF:
            self.refused = self.refused or f"it calls the host for service {service}, which is not there"
            return
        descriptor, *words = self._get(at, "8Q")
        if descriptor & _BEGIN:
            self.numbers += 1
            descriptor = descriptor & ((1 << _NUMBER) - 1) & ~_BEGIN | self.numbers << _NUMBER
            self.messages[self.numbers] = []
        number, length = descriptor >> _NUMBER, descriptor >> _LENGTH & 7
        self.messages[number] += words[:length]
        if descriptor & _END:
            text = _printed(self.messages.pop(number))
            self.text += text
            descriptor = len(text)
        self._put(at, descriptor)


def _printed(words: list[int]) -> str:
    """The text of a message: a control word, the format, its values; strings are in it, padded to eight bytes."""
    data, at = struct.pack(f"<{len(words)}Q", *words), 8

    def string() -> str:
        nonlocal at
        end = data.find(b"\0", at)
        end = len(data) if end < 0 else end
        text = data[at:end].decode("utf-8", "replace")
        at += (end - at + 8) // 8 * 8
        return text

    def take(letter: str) -> tuple[int, int | float | str]:
        nonlocal at
        if at + 8 > len(data):
            raise StopIteration
        if letter == "s":
            return SIGNED, string()
        is_float = letter in "aAeEfFgG"
        (value,) = struct.unpack_from("<d" if is_float else "<q", data, at)
        at += 8
        return (FLOAT if is_float else SIGNED), value

    return formatted(string(), take)
