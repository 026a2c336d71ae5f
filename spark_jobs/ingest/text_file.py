"""The small text files beside the logs: versions, properties, snapshots, journals."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.packed_file import open_regular

TEXT_BYTES_MAX = 64 << 20


def read_small_text(path: Path, errors: str = "strict") -> str:
    """Return the text of ``path``, without a byte order mark; ``errors`` as of bytes.decode.

    Raises BadInputError where it is no regular file, above 64 MB, or no UTF-8.
    """
    with open_regular(path) as file:
        data = file.read(TEXT_BYTES_MAX + 1)
    if len(data) > TEXT_BYTES_MAX:
        raise BadInputError(
            f"{path} has more than {TEXT_BYTES_MAX:,} bytes, expected a small text file. Take it "
            "out of the archive, or cut it."
        )
    return text_of(data, path, errors)


def text_of(data: bytes, path: Path, errors: str = "strict") -> str:
    """Return ``data``, read from ``path``, as text; raises BadInputError where it is no UTF-8."""
    try:
        return data.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{path} is no UTF-8: found {data[error.start : error.start + 4]!r} at byte "
            f"{error.start}. Save it as UTF-8."
        ) from error
