"""Keys of a bucket with the methods of ``pathlib.Path``: universal-pathlib over Arrow's S3 client.

Arrow's, for Parquet is read and written through it: one client, one configuration. Credentials are
those that the AWS SDK finds: environment, ~/.aws, the machine's role; none is ever passed on.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import FileType, S3FileSystem
from upath.implementations.cloud import S3Path
from upath.registry import register_implementation

from spark_jobs.storage_errors import endpoint, no_bucket, said_of_storage

_SCHEME = re.compile(r"s3[an]?://")


@cache
def _client(endpoint: str | None) -> S3FileSystem:
    # Small objects are then put by one request.
    return S3FileSystem(endpoint_override=endpoint, allow_delayed_open=True)


class S3Files(ArrowFSWrapper):  # type: ignore[misc]
    """Arrow's S3 client as fsspec, and so universal-pathlib, knows file systems."""

    protocol = ("s3", "s3a")
    root_marker = ""

    def __init__(self, **_: Any) -> None:
        super().__init__(_client(endpoint()))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return _SCHEME.sub("", path).rstrip("/")

    @classmethod
    def _parent(cls, path: str) -> str:
        return cls._strip_protocol(path).rpartition("/")[0]


fsspec.register_implementation("s3", S3Files, clobber=True)


class BucketPath(S3Path):
    """A key, or what begins with it. There are no folders but of keys, no links, no permissions."""

    __slots__ = ()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder is there when it has a key."""

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Do nothing."""

    @property
    def bucket(self) -> str:
        """Return the bucket's name."""
        return self.path.partition("/")[0]

    def refusal(self) -> str | None:
        """Return why this process cannot use the bucket; None: it can."""
        try:
            (found,) = self.fs.fs.get_file_info([self.bucket])
        except OSError as error:
            return said_of_storage(error) or f"{self}: {error}"
        if found.type is FileType.NotFound:
            return no_bucket(self.bucket)
        return None


register_implementation("s3", BucketPath, clobber=True)
