"""Rewrites the screenshots of three reports beside this file: python docs/img/screenshots.py (Chromium and Pillow)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from PIL import Image

import tkgen
from tkgen.report import facts, prediction, render_html

HERE = Path(__file__).parent
SPECS = HERE.parents[1] / "specs"
SHOTS = {"eight_wave": "light", "producer_consumer_4p4c": "light", "ping_pong": "dark"}
WIDTH, HEIGHT = 1280, 9000
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)


def shoot(name: str, theme: str) -> Path:
    """The report of one spec as `report_NAME.png`, cut to its height, in 128 colours."""
    picture = HERE / f"report_{name}.png"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        built = tkgen.load(SPECS / f"{name}.tk").build().check()
        text = render_html([facts(built, prediction(built))])
        text = text.replace('<html lang="en">', f'<html lang="en" data-theme="{theme}">')
        page.write_text(text, encoding="utf-8")
        profile, size = f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{HEIGHT}"
        command = ["chromium", *FLAGS.split(), profile, size, f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
    image = Image.open(picture).convert("RGB")
    empty = image.crop((0, HEIGHT - 1, WIDTH, HEIGHT)).tobytes()
    bottom = next(y for y in range(HEIGHT, 0, -1) if image.crop((0, y - 1, WIDTH, y)).tobytes() != empty)
    image.crop((0, 0, WIDTH, min(bottom + 24, HEIGHT))).quantize(128).save(picture, optimize=True)
    return picture


if __name__ == "__main__":
    for name, theme in SHOTS.items():
        shot = shoot(name, theme)
        print(f"{shot.name}: {shot.stat().st_size // 1024} KiB")
