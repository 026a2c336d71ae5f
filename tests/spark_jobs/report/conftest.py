from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
        if found is None and not Path(own).exists():
            pytest.skip(
                f"no Chromium: none of {', '.join(CHROMIUM)} is on PATH, nor is {own} there"
            )
        # The sandbox needs rights that a container does not have; the page is a local file.
        with playwright.chromium.launch(executable_path=found, args=["--no-sandbox"]) as chromium:
            yield chromium
