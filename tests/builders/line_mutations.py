"""Ways in which a log line breaks: real lines of brokers, and functions that bend them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

GOLDEN = Path(__file__).parents[1] / "golden"
LONG_BYTES = 10 << 20
_NUMBER = re.compile(rb"(?<=[:\[,])-?\d+(?:\.\d+)?(?=[,}\]])")
_TEXT = re.compile(rb'(?<=:)"[^"\\]*"(?=[,}])')
_PAIR = re.compile(rb'"\w+":(?:"[^"\\]*"|-?[\d.]+|true|false|null),?')
_HUGE = (
    b"1e400", b"-1e400", b"1e308", b"1e-400", b"9" * 400, b"-" + b"9" * 5000, b"0." + b"3" * 3000,
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"2147483648",
    b"2147483647", b"32768", b"99999999999", b"100000000000", b"1e11", b"-1", b"-0", b"00", b"0x1F",
    b"1_000", b"+1", b"1.", b".5", b"1e5", b"4.9e-324",
)  # fmt: skip
_NOT_NUMBERS = (
    b"NaN", b"Infinity", b"-Infinity", b'"NaN"', b'"Infinity"', b"null", b"true", b"[]", b"{}",
    b'""', b'"1"', b"undefined", b"",
)  # fmt: skip
_INVALID_UTF8 = (
    b"\xff", b"\xfe\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x82", b"\xf5\x80\x80\x80", b"\x80",
    b"\xf8\x88\x80\x80\x80", b"\xf0\x9f\x98",
)  # fmt: skip
_ESCAPES = (
    rb"\ud800", rb"\udc00\ud800", rb"\u0000", rb"\uZZZZ", b"\\", rb"\x41", rb"\n", b"\xe2\x80\xa8",
    rb"\u202e",
)  # fmt: skip
NAMES = (
    "../../etc/passwd", "$(touch /tmp/x)", "`id`", "'; DROP TABLE requests; --", "a\nb\r\nc",
    "<script>alert(1)</script>", "!!python/object/apply:os.system ['id']", "x" * 4096, "\x00", "",
    "{{ 7*7 }}", "=cmd|' /C calc'!A0", "null", "~", "\u202e\u2028\ufeff", "cluster=../..",
)  # fmt: skip
_STAMPS = (
    b"0000-00-00 00:00:00,000", b"0001-01-01 00:00:00,000", b"9999-12-31 23:59:59,999",
    b"2026-02-30 00:00:00,000", b"2026-11-21 24:00:00,000", b"2026-11-21 23:59:60,000",
    b"2026-11-21T02:40:47,903+99:99", b"2026-11-21 02:40:47,903-00", b"20261121024047903",
    b"2026-11-21 02:40:47,903123456", b"9999-12-31 23:59:59,999-23:59", b"1969-12-31 23:59:59,999",
    b"0001-01-01 00:00:00,000+14:00",
)  # fmt: skip

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def real_lines() -> list[bytes]:
    """Return the lines that brokers of 2.4 to 4.2 wrote, of every capture kept for tests."""
    lines: list[bytes] = []
    for path in sorted(GOLDEN.glob("captures/*/broker=*/kafka-request.log.gz")):
        lines += gzip.decompress(path.read_bytes()).split(b"\n")
    for path in sorted(GOLDEN.glob("request_log/*/kafka-request.log")):
        lines += path.read_bytes().split(b"\n") * 10  # few, but of versions that no capture has
    return [line for line in lines if line]


def _at(rng: Random, line: bytes, inserted: bytes) -> bytes:
    place = rng.randint(0, len(line))
    return line[:place] + inserted + line[place:]


def _one_replaced(rng: Random, line: bytes, what: re.Pattern[bytes], by: bytes) -> bytes:
    found = list(what.finditer(line))
    if not found:
        return _at(rng, line, by)
    chosen = rng.choice(found)
    return line[: chosen.start()] + by + line[chosen.end() :]


def _whole(_rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return line


def _flipped_bits(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    flipped = bytearray(line)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _cut_end(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return line[: rng.randint(0, len(line))]


def _cut_begin(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return line[rng.randint(0, len(line)) :]


def _hole(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    begin, end = sorted((rng.randint(0, len(line)), rng.randint(0, len(line))))
    return line[:begin] + line[end:]


def _deep_json(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    levels = rng.choice((50, 900, 1100, 5000, 50_000))
    begin, end = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'{"request":', b"}")))
    deep = begin * levels + b"1" + end * rng.choice((levels, levels, levels - 1, 0))
    return _one_replaced(rng, line, rng.choice((_NUMBER, _TEXT)), deep)


def _huge_number(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return _one_replaced(rng, line, _NUMBER, rng.choice(_HUGE))


def _no_number(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return _one_replaced(rng, line, _NUMBER, rng.choice(_NOT_NUMBERS))


def _long_line(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    filling = rng.choice((b"x", b" ", b"[", b'\\"', b'{"a":1},', b"\x00", "é".encode()))
    filling = filling * (LONG_BYTES // len(filling))
    if rng.random() < 0.5:
        return _one_replaced(rng, line, _TEXT, b'"' + filling + b'"')
    return _at(rng, line, filling)


def _nul(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return _at(rng, line, b"\x00" * rng.choice((1, 1, 7, 4096)))


def _invalid_utf8(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return _at(rng, line, rng.choice(_INVALID_UTF8))


def _utf16_part(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    begin, end = sorted((rng.randint(0, len(line)), rng.randint(0, len(line))))
    part = line[begin:end].decode("latin-1").encode(rng.choice(("utf-16-le", "utf-16-be")))
    return line[:begin] + part + line[end:]


def _utf16_line(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    # Its line end is two bytes, so what follows begins in the middle of one.
    return (line.decode("latin-1") + "\n").encode(rng.choice(("utf-16", "utf-16-be", "utf-32")))


def _bom(_rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return b"\xef\xbb\xbf" + line


def _crlf(_rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return line + b"\r"


def _interleaved(rng: Random, line: bytes, pool: Sequence[bytes]) -> bytes:
    other = rng.choice(pool)
    return _at(rng, line, other + rng.choice((b"", b"\n")))


def _spliced(rng: Random, line: bytes, pool: Sequence[bytes]) -> bytes:
    other = rng.choice(pool)
    return line[: rng.randint(0, len(line))] + other[rng.randint(0, len(other)) :]


def _broken_escape(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return _one_replaced(rng, line, _TEXT, b'"' + rng.choice(_ESCAPES) + b'"')


def _hostile_name(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return _one_replaced(rng, line, _TEXT, json.dumps(rng.choice(NAMES)).encode())


def _twice(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    found = _PAIR.search(line, rng.randint(0, len(line)))
    return line if found is None else line[: found.end()] + found[0] + line[found.end() :]


def _pair_dropped(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    return _one_replaced(rng, line, _PAIR, b"")


def _other_stamp(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    stamp = rng.choice(_STAMPS)
    if rng.random() < 0.5:
        stamp = b"%04d-%02d-%02d 12:00:00,000" % (
            rng.randint(0, 9999),
            rng.randint(1, 12),
            rng.randint(1, 28),
        )
    return b"[" + stamp + line[24:]


def _enveloped(rng: Random, line: bytes, _pool: Sequence[bytes]) -> bytes:
    kind = rng.randrange(4)
    stream = rng.choice(("stdout", "stderr", f"s{rng.random()}"))
    if kind == 0:
        flag = rng.choice(("P", "P", "F", "X"))
        return f"2026-11-21T02:40:47.903111222Z {stream} {flag} ".encode() + line
    text = line.decode("latin-1") + rng.choice(("", "\n"))
    entry = {"log": text, "stream": stream, "time": "2026-11-21T02:40:47Z"}
    packed = json.dumps(entry).encode()
    return packed if kind < 3 else packed[: rng.randint(0, len(packed))]


def _noise(rng: Random, _line: bytes, _pool: Sequence[bytes]) -> bytes:
    return rng.randbytes(rng.randint(0, 300))


def _blank(rng: Random, _line: bytes, _pool: Sequence[bytes]) -> bytes:
    return rng.choice((b"", b" ", b"\t", b"\r", b"\n\n\n", b"[", b"{", b"[]", b"{}"))


MUTATIONS: dict[str, tuple[Mutation, float]] = {
    "as it was": (_whole, 10),
    "bits flipped": (_flipped_bits, 10),
    "end cut off": (_cut_end, 6),
    "begin cut off": (_cut_begin, 3),
    "middle cut out": (_hole, 4),
    "JSON of up to 50,000 levels": (_deep_json, 0.5),
    "huge or odd number": (_huge_number, 8),
    "NaN, Infinity, no number": (_no_number, 8),
    "line of 10 MB": (_long_line, 0.001),
    "NUL": (_nul, 3),
    "invalid UTF-8": (_invalid_utf8, 4),
    "UTF-16 part": (_utf16_part, 2),
    "UTF-16 or UTF-32 line": (_utf16_line, 2),
    "byte order mark": (_bom, 1),
    "CRLF": (_crlf, 3),
    "interleaved with another": (_interleaved, 4),
    "spliced with another": (_spliced, 4),
    "broken escape": (_broken_escape, 3),
    "hostile name": (_hostile_name, 5),
    "field twice": (_twice, 3),
    "field missing": (_pair_dropped, 6),
    "impossible time": (_other_stamp, 3),
    "container envelope": (_enveloped, 4),
    "random bytes": (_noise, 2),
    "blank": (_blank, 2),
}
"""Each kind of damage with how often it is done, in parts."""


@dataclass(frozen=True, slots=True)
class Bent:
    """One bent line, which may hold line ends, and what was done to it."""

    kinds: tuple[str, ...]
    line: bytes


def bent_lines(rng: Random, count: int, pool: Sequence[bytes]) -> Iterator[Bent]:
    """Yield ``count`` lines of ``pool``, each bent in one way, every tenth in two."""
    kinds = list(MUTATIONS)
    weights = [weight for _, weight in MUTATIONS.values()]
    for _ in range(count):
        line = rng.choice(pool)
        chosen = rng.choices(kinds, weights, k=2 if rng.random() < 0.1 else 1)
        for kind in chosen:
            line = MUTATIONS[kind][0](rng, line or b"x", pool)
        yield Bent(tuple(chosen), line)
