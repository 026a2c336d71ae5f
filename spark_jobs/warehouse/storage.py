"""Where tables and logs are: in a folder of a file system, or below a key of a bucket.

What does not know the difference takes either as a ``Path``; what has to is here.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from spark_jobs.errors import BadInputError

CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""Names of clusters: they become names of folders, parts of addresses and of Airflow's forms."""

_BUCKET_SCHEMES = ("s3://", "s3a://")
_MOVES_AT_ONCE = 16
_SAID = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status \d+\))? during \w+ operation: "
    r"(?P<detail>.*?)(?: \(Request ID.*)?$",
    re.MULTILINE,  # a worker's traceback may stand around it
)
_UNREACHABLE = frozenset({"NETWORK_CONNECTION", "REQUEST_TIMEOUT"})
_REFUSED = frozenset(
    {
        "ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "EXPIRED_TOKEN",
        "INVALID_CLIENT_TOKEN_ID", "MISSING_AUTHENTICATION_TOKEN", "UNRECOGNIZED_CLIENT",
    }
)  # fmt: skip


def storage_path(text: str | Path) -> Path:
    """Return the path of a folder or file, or for ``s3://bucket/key`` what has a Path's methods.

    A path is returned as it is. Raises BadInputError for other schemes, and for a bucket without a
    name.
    """
    if not isinstance(text, str):
        return text
    if "://" not in text:
        return Path(text)
    scheme, _, key = text.partition("://")
    if f"{scheme}://" not in _BUCKET_SCHEMES or not key.strip("/"):
        raise BadInputError(
            f"{text[:120]!r} is no place for tables or logs: expected a folder, or "
            "s3://bucket/key. Other storage has to be mounted as a folder."
        )
    # Who has folders does not wait for this import.
    from spark_jobs.warehouse.buckets import BucketPath

    # It has a Path's methods; who takes it need not know that it is none.
    return cast(Path, BucketPath(f"s3://{key}"))


def usable_storage_path(text: str) -> Path:
    """Return :func:`storage_path`; raises BadInputError where its bucket cannot be used."""
    found = storage_path(text)
    if (why := refusal(found)) is not None:
        raise BadInputError(why)
    return found


def is_in_bucket(path: Path) -> bool:
    """Return True if ``path`` is of object storage: without links, locks and renames."""
    return not isinstance(path, Path)


def refusal(path: Path) -> str | None:
    """Return the reason why this process cannot use the bucket of ``path``; None: it can."""
    why: str | None = cast(Any, path).refusal() if is_in_bucket(path) else None
    return why


def files_below(folder: Path) -> list[Path]:
    """Return the files at any depth below a bucket's ``folder``, in order of their names."""
    found: list[Path] = cast(Any, folder).files_below()
    return found


def spark_path(folder: Path) -> str:
    """Return the URL of an absolute ``folder`` for Spark, as ``file:///warehouse/requests``.

    Without one it would be what Hadoop's ``fs.defaultFS`` names, as HDFS on YARN. Not
    ``Path.as_uri``: Hadoop takes its percent signs for the folder's own.
    """
    if is_in_bucket(folder):
        return f"s3a://{str(folder).partition('://')[2]}"
    return f"file://{folder}"


def remove_folder(folder: Path) -> None:
    """Remove what is below ``folder``, as far as that may be done."""
    if not is_in_bucket(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    of_bucket = cast(Any, folder)
    with suppress(OSError):
        of_bucket.fs.fs.delete_dir(of_bucket.path)


def copy_folder(folder: Path, target: Path) -> None:
    """Make ``target`` with copies of the files below ``folder``; with none where that is not."""
    if is_in_bucket(folder):
        for file in files_below(folder) if folder.is_dir() else ():
            (target / file.relative_to(folder).as_posix()).write_bytes(file.read_bytes())
    elif folder.is_dir():
        shutil.copytree(folder, target)
    else:
        target.mkdir(parents=True)


def move_files(moves: Iterable[tuple[Path, Path]]) -> None:
    """Rename files; those of a bucket are copied by the service, then removed, many at once."""
    renames = list(moves)
    if not renames or not is_in_bucket(renames[0][0]):
        for file, target in renames:
            file.rename(target)
        return
    with ThreadPoolExecutor(_MOVES_AT_ONCE) as pool:
        list(pool.map(lambda move: move[0].rename(move[1]), renames))


def write_whole(path: Path, text: str) -> Path:
    """Write ``text`` and return its path: readers see the file of before or the whole new one."""
    if is_in_bucket(path):
        # An object is there when all of it is; what cannot be encoded must not begin one.
        path.write_bytes(text.encode("utf-8"))
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def replace_link(link: Path, target: Path) -> None:
    """Let ``link`` lead to ``target``, as seen from its folder, from one moment to the next."""
    staged = link.with_name(f".{link.name}.{uuid.uuid4().hex}")
    staged.symlink_to(target)
    staged.replace(link)


def is_irregular(path: Path) -> bool:
    """Return True for what is there and no regular file, as a pipe, which would be waited for."""
    if is_in_bucket(path):
        return False
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        return error.errno == errno.ELOOP


def sync(path: Path) -> None:
    """Let what was written of a file, or a folder's names, survive the machine as well.

    Of a bucket it does.
    """
    if is_in_bucket(path):
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def endpoint() -> str | None:
    """Return the service's address, as AWS's own tools are told it; None: Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _where() -> str:
    # Without the user and password that an address may hold.
    return (endpoint() or "Amazon S3").rpartition("@")[2]


def said_of_storage(error: BaseException) -> str | None:
    """Return the sentences for people of an error of the S3 client; None: it is none."""
    said = _SAID.search(str(error))
    if said is None:
        return None
    code, detail = said["code"], said["detail"].strip()
    where = _where()
    if code == "NO_SUCH_BUCKET":
        named = re.search(r"bucket '([^']+)'", str(error))
        return no_bucket(named[1] if named else "of that name")
    if code in _UNREACHABLE:
        return (
            f"The object storage at {where} does not answer ({detail}). Check AWS_ENDPOINT_URL, "
            "AWS_REGION and the network."
        )
    if code in _REFUSED:
        return (
            f"The object storage at {where} refuses these credentials ({code.lower()}: {detail}). "
            "It takes AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's "
            "role, which must be allowed to list, read, write and delete in the bucket."
        )
    return (
        f"The object storage at {where} gave up ({code.lower()}: {detail}). Check AWS_REGION and "
        "AWS_ENDPOINT_URL."
    )


def no_bucket(name: str) -> str:
    """Return the sentence for people that there is no bucket ``name``."""
    return (
        f"There is no bucket {name} at {_where()}. Make it, or check the name, AWS_REGION and "
        "AWS_ENDPOINT_URL: no bucket is made for you."
    )
