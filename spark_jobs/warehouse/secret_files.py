"""Files that hold secrets: read by their owner and group, and by nobody else on the machine."""

from __future__ import annotations

import stat
from pathlib import Path

from spark_jobs.errors import BadInputError

# Where container runtimes mount secrets, with modes that nobody chose, for one container alone.
_MOUNTED = Path("/run/secrets")


def check_kept_from_others(path: Path, name: str) -> None:
    """Raise BadInputError where any user of the machine can read, or write, the file ``path``.

    A file in a folder that others cannot enter is kept from them, whatever its own mode. ``name``
    says in the sentence what the file is.
    """
    mode = path.stat().st_mode
    if not mode & (stat.S_IROTH | stat.S_IWOTH):
        return
    real = path.resolve()
    if real.is_relative_to(_MOUNTED) or _is_locked_away(real):
        return
    done = "written" if mode & stat.S_IWOTH else "read"
    raise BadInputError(
        f"{name}: {path} can be {done} by every user of this machine (mode "
        f"{stat.S_IMODE(mode):04o}), but holds secrets. Run 'chmod 600 {path}' as its owner, or "
        "mount it with mode 0440; then change its secrets if others have used this machine."
    )


def _is_locked_away(real: Path) -> bool:
    return not all(folder.stat().st_mode & stat.S_IXOTH for folder in real.parents)
