"""Keys of a bucket with the methods of ``pathlib.Path``: universal-pathlib over Arrow's S3 client.

Arrow's, for Parquet is read and written through it: one client, one configuration. Credentials are
those that the AWS SDK finds: environment, ~/.aws, the machine's role; none is ever passed on.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from upath.implementations.cloud import S3Path
from upath.registry import register_implementation

from spark_jobs.warehouse.storage import endpoint, no_bucket, said_of_storage

_SCHEME = re.compile(r"s3a?://")


@cache
def _client(endpoint: str | None) -> S3FileSystem:
    # Small objects are then put by one request.
    return S3FileSystem(endpoint_override=endpoint, allow_delayed_open=True)


class S3Files(ArrowFSWrapper):  # type: ignore[misc]
    """Arrow's S3 client as fsspec, and so universal-pathlib, knows file systems.

    What cannot be looked at is not taken for what is not there, as fsspec does: an audit would go
    on without rows that it has. OSError is raised.
    """

    protocol = ("s3", "s3a")
    root_marker = ""
    cachable = False  # the client is kept, one for each service

    def __init__(self, **_: Any) -> None:
        super().__init__(_client(endpoint()))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return _SCHEME.sub("", path).rstrip("/")

    @classmethod
    def _parent(cls, path: str) -> str:
        return cls._strip_protocol(path).rpartition("/")[0]

    def _make_entry(self, info: Any) -> dict[str, Any]:
        entry: dict[str, Any] = super()._make_entry(info)
        if entry["mtime"] is None:  # of what is only the begin of keys
            del entry["mtime"]
        return entry

    def isdir(self, path: str) -> bool:
        """Return True if a key begins with ``path`` and a slash."""
        return self._kind(path) is FileType.Directory

    def isfile(self, path: str) -> bool:
        """Return True if there is such a key."""
        return self._kind(path) is FileType.File

    def _kind(self, path: str) -> FileType:
        return self.fs.get_file_info([self._strip_protocol(path)])[0].type

    def walk(self, path: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield folders with what is in them, as ``os.walk``; nothing where there is none."""
        yield from super().walk(path, *args, **kwargs | {"on_error": _raise_unless_missing})

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copy a key's object and remove it."""
        with _as_it_was_said():
            super().mv(path1, path2, **kwargs)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove a key, or all below it."""
        with _as_it_was_said():
            super().rm(path, recursive, maxdepth)

    def _open(self, path: str, *args: Any, **kwargs: Any) -> Any:
        with _as_it_was_said():
            return super()._open(path, *args, **kwargs)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


@contextmanager
def _as_it_was_said() -> Iterator[None]:
    """Undo that the wrapper takes 'The Access Key Id … does not exist' for a missing file."""
    try:
        yield
    except FileNotFoundError as error:
        if isinstance(error.__cause__, OSError):
            _raise_unless_missing(error.__cause__)
        raise


fsspec.register_implementation("s3", S3Files, clobber=True)


class BucketPath(S3Path):
    """A key, or what begins with it. There are no folders but of keys, no links, no permissions."""

    __slots__ = ()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder is there when it has a key."""

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Do nothing."""

    def glob(self, pattern: str, **_: Any) -> Iterator[BucketPath]:
        """Yield what is below this key and has a name of ``pattern``."""
        base = self.path.rstrip("/")
        for name in self.fs.glob(f"{glob.escape(base)}/{pattern}"):
            yield self / name.removeprefix(f"{base}/")

    @property
    def bucket(self) -> str:
        """Return the bucket's name."""
        return self.path.partition("/")[0]

    def files_below(self) -> list[BucketPath]:
        """Return the keys at any depth below this one, in order."""
        found = self.fs.fs.get_file_info(FileSelector(self.path, recursive=True))
        return [BucketPath(f"s3://{one.path}") for one in found if one.type is FileType.File]

    def refusal(self) -> str | None:
        """Return the reason why this process cannot use the bucket; None: it can."""
        try:
            (found,) = self.fs.fs.get_file_info([self.bucket])
        except OSError as error:
            return said_of_storage(error) or f"{self}: {error}"
        return no_bucket(self.bucket) if found.type is FileType.NotFound else None


register_implementation("s3", BucketPath, clobber=True)
