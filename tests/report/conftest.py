"""Facts of some specs, compiled where a compiler is here, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from report_specs import spec_of

from tkgen.build import Build
from tkgen.report import Facts, facts
from tkgen.toolchain.compiler import ToolchainError

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1280,900"
)


@pytest.fixture(scope="session")
def eight_wave() -> Build:
    try:
        return spec_of("eight_wave").build()
    except ToolchainError as error:
        pytest.skip(f"no compiler for gfx942: {error}")


@pytest.fixture(scope="session")
def eight_wave_facts(eight_wave: Build) -> Facts:
    return facts(eight_wave)


@pytest.fixture(scope="session")
def ping_pong() -> Facts:
    return facts(spec_of("ping_pong"))


@pytest.fixture(scope="session")
def producer_consumer() -> Facts:
    return facts(spec_of("producer_consumer_4p4c"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with an empty profile."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (pip install selenium)")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs Chromium and its driver (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()
