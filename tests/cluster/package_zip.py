"""The package as `make package` zips it, from the sources: its wheel needs a build from the net."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]


def make_zip(path: Path) -> Path:
    """Write the modules and the data that pyproject.toml names to ``path`` and return it."""
    with ZipFile(path, "w") as packed:
        for folder, file in sorted(set(_files())):
            packed.write(file, file.relative_to(ROOT / folder))
    return path


# A worker compiles this one itself, in a second.
NOT_LENT = "record_time._learn-"


def lend_kernels(package: Path, root: Path) -> None:
    """Copy what numba has compiled of the sources to where it looks for that of the zip.

    It knows compiled code by its sources' text. What is not there, or is old, is compiled anew: all
    of it takes half a minute on each worker.
    """
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    target = root / f"quota-audit-{digest[:16]}"
    for file in ROOT.glob("spark_jobs/**/__pycache__/*.nb[ic]"):
        if file.name.startswith(NOT_LENT):
            continue
        folder = target / file.parents[1].relative_to(ROOT)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder)


def _files() -> Iterator[tuple[str, Path]]:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    find = wanted["packages"]["find"]
    for folder, pattern in itertools.product(find["where"], find["include"]):
        for package in (ROOT / folder).glob(f"{pattern}/__init__.py"):
            for part in package.parent.rglob("__init__.py"):
                yield from ((folder, file) for file in part.parent.glob("*.py"))
    for package, patterns in wanted["package-data"].items():
        (folder,) = (name for name in find["where"] if (ROOT / name / package).is_dir())
        for pattern in patterns:
            found = (ROOT / folder / package).glob(pattern)
            yield from ((folder, file) for file in found if file.is_file())
