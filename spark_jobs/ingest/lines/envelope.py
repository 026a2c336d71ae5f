r"""What container runtimes and shippers put around a log line, taken off.

- CRI, written by containerd and CRI-O (Kubernetes, ``kubelet-cri-logging.md`` of its design
  proposals): ``<RFC 3339 time> stdout|stderr F|P <text>``; P marks a part whose rest follows on the
  same stream, F the last part.
- Docker (moby, ``jsonfilelog``): ``{"log":"<text>\n","stream":"stdout","time":"<RFC 3339>"}``; a
  part is an object whose ``log`` has no line end. Shippers that take over ``log`` and drop the
  rest write whole lines.
- A prefix of any shipper, as a regular expression: outside of either envelope or within it.

Each line is looked at for itself, so a file may mix them. A plain line begins with ``[`` and is
returned untouched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

_PLAIN = ord("[")
_DOCKER = ord("{")
_CRI = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
    rb" (stdout|stderr) ([FP])(?::[^ ]*)?(?: |$)"
)
_PARTIAL = b"P"
_STREAMS = frozenset({"stdout", "stderr"})
JOINED_BYTES_MAX = (16 << 20) + 1
"""Of a joined line no more is kept: one byte above what is read, so that it is seen to be too long.
"""


class _DockerLine(msgspec.Struct, gc=False):
    log: str
    stream: str = ""
    time: Any = None


_decode_docker_line = msgspec.json.Decoder(_DockerLine).decode


@dataclass(slots=True)
class EnvelopeState:
    """The begins of lines whose rest is still to come, one a stream; to be kept per file."""

    parts: dict[bytes, bytearray] = field(default_factory=dict)

    def unfinished(self) -> Iterator[bytes]:
        """Yield each line whose rest never came, as far as it came, and forget it."""
        while self.parts:
            yield bytes(self.parts.pop(next(iter(self.parts))))

    def joined(self, stream: bytes, text: bytes, *, is_partial: bool) -> bytes | None:
        """Return ``text`` behind its stream's earlier parts; None where it is itself a part."""
        if is_partial:
            begin = self.parts.setdefault(stream, bytearray())
            begin += text[: JOINED_BYTES_MAX - len(begin)]
            return None
        if not self.parts:
            return text
        return bytes(self.parts.pop(stream, b"")) + text


def unwrap(line: bytes, state: EnvelopeState, prefix: re.Pattern[bytes] | None) -> bytes | None:
    """Return the log line within ``line``; None where more of it is still to come.

    ``line`` is one line of a file without its line end. ``state`` is changed in place and belongs
    to that file. A line in no known envelope is returned as it is.

    >>> state = EnvelopeState()
    >>> unwrap(b"2026-11-21T03:26:45.23Z stdout P [2026-11-21 03:", state, None)
    >>> unwrap(b"2026-11-21T03:26:45.23Z stdout F 26:45,230] DEBUG", state, None)
    b'[2026-11-21 03:26:45,230] DEBUG'
    """
    if prefix is None:
        return line if not line or line[0] == _PLAIN else _opened(line, state)
    bare = _without(prefix, line)
    opened = _opened(bare, state)
    if opened is None or opened is bare or bare is not line:
        return opened
    return _without(prefix, opened)


def stream_of(line: bytes, prefix: re.Pattern[bytes] | None) -> bytes | None:
    """Return the stream that the envelope around ``line`` names; None where it is in none."""
    bare = line if prefix is None else _without(prefix, line)
    if found := _CRI.match(bare):
        return found[1]
    try:
        return _decode_docker_line(bare).stream.encode() if bare[:1] == b"{" else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _without(prefix: re.Pattern[bytes], line: bytes) -> bytes:
    """Return ``line`` behind its prefix; the same object where it has none."""
    found = prefix.match(line)
    return line[found.end() :] if found is not None and found.end() else line


def _opened(line: bytes, state: EnvelopeState) -> bytes | None:
    if not line or line[0] == _PLAIN:
        return line
    if line[0] == _DOCKER:
        return _docker(line, state)
    found = _CRI.match(line)
    if found is None:
        return line
    return state.joined(found[1], line[found.end() :], is_partial=found[2] == _PARTIAL)


def _docker(line: bytes, state: EnvelopeState) -> bytes | None:
    try:
        entry = _decode_docker_line(line)
        text = entry.log.encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return line
    is_dockers = entry.stream in _STREAMS and isinstance(entry.time, str)
    is_partial = is_dockers and not text.endswith(b"\n")
    return state.joined(entry.stream.encode(), text.removesuffix(b"\n"), is_partial=is_partial)
