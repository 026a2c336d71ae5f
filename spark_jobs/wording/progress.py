"""How steps are doing: what whoever runs them tells while they run, and how a terminal shows it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

EVENTS_FILE = "QUOTA_AUDIT_EVENTS_FILE"
"""Variable of the environment: the file to which a process that runs steps adds its events."""

_RECENT_LINES = 30


class Started(msgspec.Struct, frozen=True, tag=True):
    """A step has begun; ``command`` where it is a process of its own."""

    step: str
    day: str
    command: str = ""


class Said(msgspec.Struct, frozen=True, tag=True):
    """The running step has said something."""

    text: str


class Finished(msgspec.Struct, frozen=True, tag=True):
    """A step has ended well."""

    step: str
    seconds: float


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A step has ended otherwise; a negative ``exit_code`` is the signal that killed it."""

    step: str
    exit_code: int
    seconds: float


Event = Started | Said | Finished | Failed
Tell = Callable[[Event], None]
_EVENT = msgspec.json.Decoder(Event)


@contextmanager
def telling(tell: Tell, step: str, day: str) -> Iterator[Callable[[str], None]]:
    """Tell of a step of this process while the block runs it; the block says what comes of it."""
    tell(Started(step, day))
    started = time.monotonic()
    try:
        yield lambda text: tell(Said(text))
    except Exception as error:
        tell(Failed(step, getattr(error, "exit_code", 1), time.monotonic() - started))
        raise
    tell(Finished(step, time.monotonic() - started))


def log_line(event: Event) -> str:
    """Return an event as a line of a log.

    >>> log_line(Finished("replay_quotas", 12.345))
    'step replay_quotas finished in 12.3 s'
    """
    match event:
        case Started(step, day, command):
            return f"step {step} of {day} started: {command}"
        case Said(text):
            return text
        case Finished(step, seconds):
            return f"step {step} finished in {seconds:.1f} s"
        case Failed(step, exit_code, seconds):
            return f"step {step} failed with exit code {exit_code} in {seconds:.1f} s"


class EventFile:
    """Events of another process, JSON, one a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def tell(self, event: Event) -> None:
        """Add an event."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(event) + b"\n")

    def news(self) -> Iterator[Event]:
        """Yield the events that were added since this was asked before."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                # What is being written has no end yet.
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield _EVENT.decode(line)


class StepProgress:
    """A terminal's view of steps: a spinner on the running one, a line for each that has ended."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.failed: Failed | None = None
        self.last_sentence = "no step started"
        self._recent: deque[str] = deque(maxlen=_RECENT_LINES)
        self._running: TaskID | None = None
        self._spinner = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._spinner.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._spinner.stop()

    def tell(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Started(step, day):
                self.failed, self.last_sentence = None, ""
                self._recent.clear()
                self.wait_for(f"{day} {step}".strip())
            case Said(text):
                self._recent.append(text)
                self.last_sentence = text or self.last_sentence
            case Finished(step, seconds):
                self._print("green", "✓", step, f"{seconds:7.1f} s")
            case Failed(step, exit_code):
                self.failed = event
                self._print("red", "✗", step, f"exit code {exit_code}")

    def recent_lines(self) -> list[str]:
        """Return the last lines of the step that runs, or that has failed."""
        return list(self._recent)

    def wait_for(self, what: str) -> None:
        """Show that ``what`` is under way."""
        if self._running is not None:
            self._spinner.remove_task(self._running)
        self._running = self._spinner.add_task(escape(what), total=None)

    def _print(self, style: str, mark: str, step: str, note: str) -> None:
        sentence = escape(self.last_sentence)
        line = f"[{style}]{mark}[/{style}] {step:<18} {note}  [dim]{sentence}[/dim]"
        self.console.print(line)
