"""The package as `make package` zips it, from the sources: its wheel needs a build from the net."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]


def make_zip(path: Path) -> Path:
    """Write the modules and the data that pyproject.toml names to ``path`` and return it."""
    with ZipFile(path, "w") as packed:
        for file in sorted(set(_files())):
            packed.write(file, file.relative_to(ROOT))
    return path


def _files() -> Iterator[Path]:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    for pattern in wanted["packages"]["find"]["include"]:
        for package in ROOT.glob(f"{pattern}/__init__.py"):
            yield from package.parent.glob("*.py")
            for part in package.parent.rglob("*/__init__.py"):
                yield from part.parent.glob("*.py")
    for package, patterns in wanted["package-data"].items():
        for pattern in patterns:
            yield from (f for f in (ROOT / package).glob(pattern) if f.is_file())
