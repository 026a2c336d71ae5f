"""A log file on a disk that stands still again and again: a named pipe whose reader pauses."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_SECONDS, STALL_SECONDS = 5.0, 1.0
_READ_BYTES = 1 << 16


@contextmanager
def stalling_pipe(pipe: Path, copy: Path) -> Iterator[None]:
    """Make ``pipe``; what is written into it is copied, but for a second in every five.

    The block ends when the writer has closed the pipe. A pipe holds 64 KiB on Linux.
    """
    os.mkfifo(pipe)
    thread = threading.Thread(target=_copy, args=(pipe, copy), daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Where nobody ever opened it, the reader still waits for a writer.
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
        thread.join()


def _copy(pipe: Path, copy: Path) -> None:
    with pipe.open("rb", buffering=0) as source, copy.open("wb") as sink:
        stall = time.monotonic() + PERIOD_SECONDS
        while text := source.read(_READ_BYTES):
            sink.write(text)
            if time.monotonic() > stall:
                time.sleep(STALL_SECONDS)
                stall = time.monotonic() + PERIOD_SECONDS - STALL_SECONDS
