"""Writes what the base images' tags now stand for: ``python -m tools.renew_images FILE…``.

The digest, and not the tag, says which image is built from or run: what has another one is
refused by the container engine. Standard library only.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INSPECT = "docker buildx imagetools inspect --format {{.Manifest.Digest}}"
_PINNED = re.compile(r"(?P<tag>\b[\w./-]+:[\w.-]+)@(?P<digest>sha256:[0-9a-f]{64})")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class NoDigestError(Exception):
    """Why a tag's digest is not known; no file is changed."""


def digest_of(tag: str, inspect: Sequence[str]) -> str:
    """Return the digest of the image, of all platforms, that ``tag`` stands for now."""
    try:
        done = subprocess.run([*inspect, tag], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoDigestError(f"{inspect[0]} cannot be run: {error.strerror}.") from error
    found = done.stdout.strip()
    if done.returncode or not _DIGEST.fullmatch(found):
        said = (done.stderr.strip() or found).splitlines() or [f"exit code {done.returncode}"]
        raise NoDigestError(f"{tag} has no digest: {said[-1]}")
    return found


def renew(paths: Sequence[Path], inspect: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Write the digests into the files; return tag → the digest before, and now.

    Raises NoDigestError.
    """
    texts = {path: path.read_text("utf-8") for path in paths}
    before = {
        found["tag"]: found["digest"] for t in texts.values() for found in _PINNED.finditer(t)
    }
    now = {tag: digest_of(tag, inspect) for tag in before}
    for path, text in texts.items():
        path.write_text(_PINNED.sub(lambda m: f"{m['tag']}@{now[m['tag']]}", text), "utf-8")
    return {tag: (before[tag], now[tag]) for tag in before}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print which images are others now; return 1 where a digest could not be had."""
    parser = argparse.ArgumentParser(description="Writes the digests of base images.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--inspect", default=INSPECT, help="the command that prints a tag's digest")
    asked = parser.parse_args(arguments)
    try:
        renewed = renew(asked.files, shlex.split(asked.inspect))
    except NoDigestError as error:
        print(f"{error} Nothing is changed.", file=sys.stderr)
        return 1
    for tag, (before, now) in renewed.items():
        print(f"{tag}: {'as it was' if before == now else f'{before} is {now} now'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
