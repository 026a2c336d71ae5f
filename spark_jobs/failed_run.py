"""What to say of errors that are nobody's mistake in the input: full disks, killed processes."""

from __future__ import annotations

import errno
import re

_OF_THE_MACHINE = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM,
        errno.ENOTDIR, errno.EMFILE, errno.ENFILE,
    }
)  # fmt: skip
_RAISED = re.compile(
    r"^(?:: |Caused by: )?(?:[\w.]*\.)?(\w+(?:Error|Exception|Exit)): (.+)$", re.MULTILINE
)
_SAID_MAX = 500
_WHAT_NOW = (
    "Nothing of this run was published: what readers see is as it was. Mend that and run again."
)


def said_of(error: BaseException) -> str | None:
    """Return a sentence on an error of the machine or of Spark; None where it is neither."""
    if isinstance(error, ConnectionError):
        return (
            "Spark's JVM does not answer any more: it was killed, or it ran out of memory. "
            f"{_WHAT_NOW}"
        )
    if isinstance(error, OSError):
        if error.errno not in _OF_THE_MACHINE:
            return None
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}. {_WHAT_NOW}"
    if not type(error).__module__.startswith(("py4j", "pyspark")):
        return None
    text = str(error).strip()
    raised = _RAISED.findall(text)
    why = ": ".join(raised[-1]) if raised else text.partition("\n")[0]
    return f"Spark gave up: {why[:_SAID_MAX]}. {_WHAT_NOW}"
