"""``python -m docs.generate.gallery docs/gallery`` writes the gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from docs.generate.gallery.catalogue import gallery_files


def write(folder: Annotated[Path, typer.Argument(help="where the pages and pictures go")]) -> None:
    """Write every page and picture of the documents' own arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    files = gallery_files()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    typer.echo(f"{len(files)} files in {folder}")


if __name__ == "__main__":
    typer.run(write)
