"""The report and the page: complete, escaped, and without names of hosts, users and folders."""

from __future__ import annotations

import getpass
import json
import socket

import html5lib
import pytest

pytest.importorskip("torch")
pytest.importorskip("tinygrad")

from tkgen.hardware import private
from tkgen.hardware.page import markdown
from tkgen.hardware.report import html, report

RUN = {
    "format": 1, "tkgen": "0.1.0", "seed": 0, "GPU": "AMD Instinct MI300X", "target": "gfx942", "compute units": 304,
    "memory": 1 << 37, "HIP": "6.3", "clock": 2100.0, "stand-in": False,
}  # fmt: skip
UNEQUAL = {
    "instruction": "v_cvt_pk_u8_f32 v20, v10, v12, v14", "name": "v_cvt_pk_u8_f32", "verdict": "wrong", "values": 2048,
    "differing": 12, "NaN bits": 0, "ulps": None, "note": "",
    "examples": [{"where": "v20, lane 3", "inputs": "v10 0x3f000000", "GPU": "0x00000000", "emulator": "0x00000001"}],
}  # fmt: skip
RESULTS = [
    {"section": "specs", "item": "eight_wave", "verdict": "right", "said": "8 cases", "cases": [{}] * 8},
    {"section": "specs", "item": "<b>", "verdict": "wrong", "said": "M=64: 3 | of 5\nmore", "cases": [{}] * 2},
    {"section": "specs", "item": "far", "verdict": "skipped", "said": "refused"},
    {"section": "instructions", "item": "vector-01", "verdict": "wrong", "said": "", "probes": 48, "values": 9000,
     "instructions": ["v_add_f32", "v_cvt_pk_u8_f32", "v_cvt_rpi_i32_f32"], "unequal": [UNEQUAL]},
    {"section": "instructions", "item": "vector-02", "verdict": "failed", "said": "ended the process with status 134"},
    {"section": "machine", "item": "L1", "verdict": "measured", "said": "", "measured": 32.0, "assumed": 64.0,
     "ratio": 0.5, "far": True, "unit": "bytes per clock and CU", "source": "timing.l1_bytes_per_clock"},
    {"section": "times", "item": "eight_wave M=4096", "verdict": "measured", "said": "", "unit": "TFLOP/s",
     "times": {"tkgen": {"seconds": 2e-4, "spread": 0.01, "rate": 687.0}, "hipBLASLt": {"seconds": 3e-4},
               "Triton 1": {"failed": "no such"}},
     "ratios": {"hipBLASLt": 1.5, "Triton 2": 2.0, "Triton 3": 1.25}},
]  # fmt: skip


def text_of(page):
    return " ".join("".join(html5lib.parse(page).itertext()).split())


@pytest.mark.parametrize("stand_in", [False, True])
def test_the_page_and_the_report_have_every_section(stand_in):
    found = report({**RUN, "stand-in": stand_in}, RESULTS, [("times", "torch", "pip install torch")])
    page, shown = markdown(found), text_of(html(found))
    for said in ("1 of 2 specs are right, in 10 cases; 1 are not for this target", "48 probes of 3 instructions",
                 "2 instructions give the same bits", "687 TFLOP/s ± 1.0 %", "1.500 of hipBLASLt, 1.250 of Triton",
                 "GPU 0x00000000, emulator 0x00000001", "1 of 1 values are further", "ended the process"):  # fmt: skip
        assert said in " ".join(page.split()) and said in shown, said
    assert "| v\\_cvt\\_rpi\\_i32\\_f32 | the same |" in page and "| v\\_cvt\\_pk\\_u8\\_f32 | differs |" in page
    assert ("not on a GPU" in page) == ("not on a GPU" in shown) == stand_in
    assert "it needs torch" in page and "<b>" not in html(found) and "\\<b\\>" in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert not [r for r in rows if r.replace("\\|", "").count("|") not in (3, 4, 5, 6, 7)]


def test_a_page_from_a_check_is_the_one_of_its_report(checked, tmp_path):
    page = tmp_path / "docs" / "measured-amd.md"
    words = ("--stand-in", "--only", "machine", "--item", "compute units", "--into", tmp_path / "state")
    got = checked(*words, "--page", page)
    assert got.exit_code == 0 and "not on a GPU" in got.output
    made = json.loads((tmp_path / "state" / "report.json").read_text())
    assert page.read_text() == markdown(made) and (tmp_path / "state" / "report.html").read_text() == html(made)
    for name in ("report.json", "report.html"):
        text = (tmp_path / "state" / name).read_text()
        assert str(tmp_path) not in text and socket.gethostname() not in text


def test_texts_lose_folders_and_names(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "node17.cluster.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "marie")
    private._names.cache_clear()
    try:
        given = "Node17: /home/marie/x/k.hsaco: cannot read ~/notes/a.txt (marie@node17.cluster.example) 3/4 TB/s"
        assert private.cleaned(given) == "HOST: k.hsaco: cannot read a.txt (USER@HOST) 3/4 TB/s"
    finally:
        private._names.cache_clear()
