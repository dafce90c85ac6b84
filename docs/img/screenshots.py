"""Rewrites the pictures of reports beside this file: python docs/img/screenshots.py (Chromium, its driver, Pillow)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver

from tkgen.api import load_products
from tkgen.report import facts, prediction, render_html

HERE = Path(__file__).parent
SPECS = HERE.parents[1] / "specs"
SHOTS = {"eight_wave": "light", "ping_pong": "dark"}
PIPELINES = {"ping_pong": "light", "producer_consumer_4p4c": "light"}
WIDTH, HEIGHT = 1280, 9000
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)


def written(name: str, theme: str, folder: str) -> Path:
    """The report of one spec as a file in `folder`."""
    page = Path(folder) / "report.html"
    built = load_products(SPECS / f"{name}.tk").build().check()
    text = render_html([facts(built, prediction(built))])
    page.write_text(text.replace('<html lang="en">', f'<html lang="en" data-theme="{theme}">'), encoding="utf-8")
    return page


def shoot_pipeline(name: str, theme: str) -> Path:
    """The pipeline to scale of one spec as `pipeline_NAME.png`."""
    picture = HERE / f"pipeline_{name}.png"
    with tempfile.TemporaryDirectory() as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS.split(), f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        chrome.set_window_size(1400, 1600)
        chrome.get(written(name, theme, folder).as_uri())
        chrome.find_element("css selector", "[data-picture=time-scale]").screenshot(str(picture))
        chrome.quit()
    Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)
    return picture


def shoot(name: str, theme: str) -> Path:
    """The report of one spec as `report_NAME.png`, cut to its height, in 128 colours."""
    picture = HERE / f"report_{name}.png"
    with tempfile.TemporaryDirectory() as folder:
        page = written(name, theme, folder)
        profile, size = f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{HEIGHT}"
        command = ["chromium", *FLAGS.split(), profile, size, f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
    image = Image.open(picture).convert("RGB")
    empty = image.crop((0, HEIGHT - 1, WIDTH, HEIGHT)).tobytes()
    bottom = next(y for y in range(HEIGHT, 0, -1) if image.crop((0, y - 1, WIDTH, y)).tobytes() != empty)
    image.crop((0, 0, WIDTH, min(bottom + 24, HEIGHT))).quantize(128).save(picture, optimize=True)
    return picture


if __name__ == "__main__":
    for shot in (*(shoot(*s) for s in SHOTS.items()), *(shoot_pipeline(*s) for s in PIPELINES.items())):
        print(f"{shot.name}: {shot.stat().st_size // 1024} KiB")
