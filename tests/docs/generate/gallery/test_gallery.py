"""The gallery in the repository is the one that the policies make."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import pytest

from docs.generate.gallery.__main__ import write

COMMITTED = Path(__file__).parents[4] / "docs" / "gallery"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    folder = tmp_path_factory.mktemp("gallery")
    write(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_gallery_is_not_stale(written: Mapping[str, bytes]) -> None:
    committed = {path.name: path.read_bytes() for path in COMMITTED.iterdir()}
    stale = [name for name in {*committed, *written} if committed.get(name) != written.get(name)]
    assert not stale, f"run `make gallery`: {sorted(stale)} differ"


def test_the_pages_links_and_pictures_exist(written: Mapping[str, bytes]) -> None:
    pages = {name: text.decode() for name, text in written.items() if name.endswith(".md")}
    assert len(pages) == 9
    for name, text in pages.items():
        links = re.findall(r"\]\(([^)]+)\)", text)
        assert links, name
        for link in links:
            assert link in written or (COMMITTED / link).exists(), f"{name}: {link}"


def test_a_picture_is_an_svg_with_a_label_and_without_anything_of_its_run(
    written: Mapping[str, bytes],
) -> None:
    pictures = {name: text for name, text in written.items() if name.endswith(".svg")}
    assert len(pictures) == 8
    for name, text in pictures.items():
        root = ET.fromstring(text)
        assert root.get("aria-label"), name
        assert root.get("role") == "img", name
        assert b"prefers-color-scheme: dark" in text, name
        assert b"<metadata" not in text, name
        assert b"Matplotlib" not in text, name
