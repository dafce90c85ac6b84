"""Launches on two emulators (`benchmarks/second_emulator.py`), the second one replaced by the first."""

from __future__ import annotations

import numpy as np
import pytest
import second_emulator

from tests.emulate import frame
from tkgen.emulate import Buffer, launch


def both_of(assemble, monkeypatch, change: int) -> second_emulator.Both:
    """One launch that doubles 64 numbers; the second emulator's result is `change` away in one of them."""
    code = assemble(
        frame.kernel(
            "  global_load_dword v3, v1, s[8:9]\n  s_waitcnt vmcnt(0)\n  v_add_u32 v3, v3, v3\n"
            "  global_store_dword v1, v3, s[10:11]\n"
        )
    )
    given = np.arange(64, dtype=np.uint32)

    def there(guest, grid, block, lds):
        out = np.zeros(64, dtype=np.uint32)
        launch(code, grid=grid, block=block, args=[Buffer(given.copy(), "in", writable=False), Buffer(out, "out")])
        out[5] += change
        return {"out": out.tobytes()}

    monkeypatch.setattr(second_emulator, "run_there", there)
    both, out = second_emulator.Both(), np.zeros(64, dtype=np.uint32)
    args = [Buffer(given.copy(), "in", writable=False), Buffer(out, "out")]
    outcome = both(code, grid=(1, 1, 1), block=(64, 1, 1), args=args)
    assert outcome.completed and (out == 2 * given).all()
    both(code, grid=(1, 1, 1), block=(64, 1, 1), args=args)  # the same again: not compared
    assert both.launches == 1
    return both


@pytest.mark.parametrize(("change", "wrong"), [(0, 0), (1, 1), (0x01000100, 2)])
def test_bytes_of_writable_buffers_are_compared(assemble, monkeypatch, change, wrong):
    (found,) = both_of(assemble, monkeypatch, change).differences
    assert (found.name, found.bytes, found.of) == ("out", wrong, 256)


def test_without_a_checkout_it_says_so(monkeypatch, capsys):
    monkeypatch.delenv("TKGEN_TINYGRAD", raising=False)
    monkeypatch.setattr("sys.argv", ["second_emulator.py", "specs/rows/elementwise.tk"])
    assert second_emulator.main() == 2
    assert "must name a checkout" in capsys.readouterr().err


def test_memory_is_mapped_where_the_launch_has_it():
    address = 0x3000_0000_0000
    second_emulator.mapped(address, 100)
    with pytest.raises(OSError, match="no memory at"):
        second_emulator.mapped(address, 100)
    second_emulator.unmapped(address, 100)
    second_emulator.mapped(address, 100)
    second_emulator.unmapped(address, 100)
