"""Every file of an archive folder under each of its names, links followed within the archive only.

Archives are mounted and tidied with symbolic links: of the folder itself, of hours, of files. One
that leads out of the archive could make an audit read, and show, any file of the machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.storage import files_below, is_in_bucket


@dataclass(slots=True)
class _Found:
    """What lies in an archive by real path, and links: where each is, and where it leads."""

    files: list[Path] = field(default_factory=list)
    specials: list[Path] = field(default_factory=list)
    links: list[tuple[Path, Path]] = field(default_factory=list)


def archive_files(archive: Path, is_wanted: Callable[[str], bool]) -> list[list[Path]]:
    """Return the names of each regular file of ``archive``: its own first, then those of links.

    ``is_wanted`` says of a file's name whether the archive's reader looks at it: of others a link
    may lead anywhere, and they may be of any kind. Raises BadInputError for a link out of the
    archive or to nothing, for a pipe or device, and for a folder that may not be read.
    """
    if is_in_bucket(archive):  # which has neither links nor devices
        return [[file] for file in files_below(archive)]
    root = archive.resolve()
    found = _found(root)
    for special in found.specials:
        if is_wanted(special.name):
            raise BadInputError(
                f"{_shown(special, root, archive)} is no regular file but a pipe, socket or "
                "device. Take it out of the archive."
            )
    names = {file: [_shown(file, root, archive)] for file in sorted(found.files)}
    below = _by_folder(names) if found.links else {}
    for link, target in sorted(found.links):
        shown = _shown(link, root, archive)
        if not _leads_inside(shown, target, root, is_wanted):
            continue
        for file in [target] if target in names else below.get(target, ()):
            names[file].append(shown / file.relative_to(target) if file != target else shown)
    return list(names.values())


def _leads_inside(link: Path, target: Path, root: Path, is_wanted: Callable[[str], bool]) -> bool:
    """Return whether what a link leads to is read; raises BadInputError where it may not be."""
    matters = is_wanted(link.name) or target.is_dir()
    if target.is_relative_to(root):
        if matters and not target.exists():
            raise BadInputError(f"{link} leads to {target}, which is not there. Remove the link.")
        return matters
    if matters:
        raise BadInputError(
            f"{link} leads out of the archive, to {target}. Only links within the archive are "
            "followed: copy what it leads to, or give the folder that holds both as the archive."
        )
    return False


def _by_folder(files: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return the files at any depth below each folder."""
    below: dict[Path, list[Path]] = {}
    for file in files:
        for folder in file.parents:
            below.setdefault(folder, []).append(file)
    return below


def _shown(path: Path, root: Path, archive: Path) -> Path:
    """Return a real path as people wrote it: below the archive as it was given."""
    return archive / path.relative_to(root)


def _found(root: Path) -> _Found:
    found, folders = _Found(), [root]
    while folders:
        for entry in _entries(folders.pop()):
            path = Path(entry.path)
            if entry.is_symlink():
                found.links.append((path, _target(path)))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                found.files.append(path)
            else:
                found.specials.append(path)
    return found


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        raise BadInputError(
            f"{folder} cannot be listed ({error.strerror}). Correct its permissions, or run again "
            "when nothing is moved in the archive."
        ) from error


def _target(link: Path) -> Path:
    try:
        return link.resolve(strict=False)
    except (OSError, RuntimeError) as error:
        raise BadInputError(f"{link} leads in a circle. Remove the link.") from error
