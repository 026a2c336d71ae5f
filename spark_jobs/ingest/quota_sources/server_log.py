"""Quota changes, throttled requests and starts from a broker's ``server.log``, to the millisecond.

The lines are those of Kafka's quota managers (``ClientQuotaManager``, its DefaultQuotaCallback,
and the managers derived from it; Scala until 4.1, Java since 4.2, the texts are the same)::

    [2026-11-21 03:26:45,230] INFO Changing PRODUCE quota for user alice client-id svc to 180000.0
    [2026-11-21 03:27:25,110] INFO Removing PRODUCE quota for user alice client-id svc
    [2026-11-21 03:26:55,483] DEBUG Quota violated for sensor (Produce-dave:sink). Delay time: (8)

each followed by the logger's name in brackets. Users are URL-encoded in them, client-ids are not.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote_plus

from spark_jobs.ingest.quota_sources.events import QuotaEntity, QuotaEvent
from spark_jobs.ingest.quota_sources.out_of_scope import is_out_of_scope
from spark_jobs.ingest.quota_sources.restarts import SERVER_LOG, BrokerStart
from spark_jobs.quota.codes import DEFAULT

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


LOGGED_TWICE_WITHIN_MS = 1_000
"""On a node that is controller and broker, both managers log a change within this time."""

# QuotaType (older) and ClientQuotaType (newer) write ControllerMutation and CONTROLLER_MUTATION.
_QUOTA_TYPES = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "request": "request_percentage",
    "controllermutation": "controller_mutation_rate",
}
STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
# Each is matched at the first place of its first words: a search would read the rest of the line
# again from every such place.
_LOGGER = re.compile(r"\([\w.$]+\)")
_CHANGING = re.compile(r"Changing (\w+) quota for (.+) to ([-+\w.]+)")
_REMOVING = re.compile(r"Removing (\w+) quota for (.+)")
_VIOLATED = re.compile(
    r"Quota violated for sensor \((\w+)-([^:]*):(.*)\)\. Delay time: \((\d{1,9})\)"
)
# Quota managers start the reapers of their throttled channels as they are made.
STARTING = re.compile(
    r"\[KafkaServer id=\d+\] starting|from SHUTDOWN to STARTING|"
    r"ThrottledChannelReaper-\w+\]?: Starting"
)
STARTED = re.compile(r"Kafka Server started|\[KafkaServer id=\d+\] started")
STOPPED = re.compile(r"shut down completed|from SHUTTING_DOWN to SHUTDOWN")
STARTING_AGAIN_MS = 15_000
"""A line of a start that comes again so much later is another start's."""
_ENTITY = re.compile(
    r"(?:(?P<default_user>default user)|user (?P<user>\S+))?\s*"
    r"(?:(?P<default_client>default client-id)|client-id (?P<client>.+))?"
)
_KEYWORDS = ("Changing ", "Removing ", "Quota violated", "max connection ", "max IP ")
_LIFE_WORDS = ("tarted", "tarting", "STARTING", "shut down completed", "to SHUTDOWN")


@dataclass(frozen=True, slots=True)
class ThrottleRecord:
    """One request that a broker found in violation of a quota, on the sensor (user, client_id)."""

    broker_id: int
    at_ms: int
    quota_type: str
    user: str
    client_id: str
    throttle_time_ms: int
    source_file: str
    source_line: int

    def row(self) -> dict[str, Any]:
        """Return the record as a row of ``tables.THROTTLE_RECORDS``."""
        values = asdict(self)
        return values | {
            "quota_user": values.pop("user"),
            "quota_client_id": values.pop("client_id"),
        }


@dataclass(frozen=True, slots=True)
class ServerLog:
    """What a server.log says about quotas; ``unread_lines`` speak of one in an unknown way.

    ``out_of_scope_lines`` tell of connection-rate quotas.
    """

    quota_events: tuple[QuotaEvent, ...]
    throttles: tuple[ThrottleRecord, ...]
    starts: tuple[BrokerStart, ...]
    unread_lines: tuple[int, ...]
    out_of_scope_lines: tuple[int, ...] = ()


def read_server_log(
    lines: Iterable[str],
    broker_id: int,
    source_file: str,
    timezone: dt.tzinfo,
    *,
    uses_zookeeper: bool = False,
) -> ServerLog:
    """Return quota changes, throttled requests and starts of a broker; times are in ``timezone``.

    A change that a combined controller and broker logs twice is returned once: with the time of
    the second line, which is the broker's, for what brokers enforce, and of the first for
    controller_mutation_rate, which the controller enforces. (The controller's publishers are
    installed first, and one thread calls all: ``KafkaRaftServer.startup``, ``MetadataLoader``.)
    With ZooKeeper there is one manager of each, and a value that is logged again was set again: all
    values of an entity are, with each change of one (``ConfigHandler``).
    """
    reader = _Reader(broker_id, source_file, LocalClock(timezone))
    for number, line in enumerate(lines, start=1):
        reader.read(line, number)
    return ServerLog(
        quota_events=tuple(
            reader.quota_events if uses_zookeeper else _counted_once(reader.quota_events)
        ),
        throttles=tuple(reader.throttles),
        starts=tuple(reader.starts),
        unread_lines=tuple(reader.unread_lines),
        out_of_scope_lines=tuple(reader.out_of_scope_lines),
    )


class _Reader:
    """Gathers what one server.log says, line by line."""

    def __init__(self, broker_id: int, source_file: str, clock: LocalClock) -> None:
        self._broker_id = broker_id
        self._source_file = source_file
        self._clock = clock
        self.quota_events: list[QuotaEvent] = []
        self.throttles: list[ThrottleRecord] = []
        self.starts: list[BrokerStart] = []
        self._start_texts: set[str] = set()
        self._is_starting = False
        self.unread_lines: list[int] = []
        self.out_of_scope_lines: list[int] = []

    def read(self, line: str, number: int) -> None:
        """Take one line into account."""
        stamp = STAMP.search(line)
        if stamp is None:
            return
        if not self._clock.observe(stamp[1]):
            return
        text = line[stamp.end() :]
        if any(word in text for word in _LIFE_WORDS):
            self._life(stamp[1], number, text.strip())
        if not any(word in text for word in _KEYWORDS):
            return
        if change := _at_first(_CHANGING, "Changing ", text):
            self._change(stamp[1], number, change[1], change[2], change[3])
        elif removal := _at_first(_REMOVING, "Removing ", _without_logger(text)):
            self._change(stamp[1], number, removal[1], removal[2], None)
        elif violation := _at_first(_VIOLATED, "Quota violated", text):
            self._throttle(stamp[1], number, violation)
        elif is_out_of_scope(text):
            self.out_of_scope_lines.append(number)

    def _change(
        self, stamp: str, number: int, type_name: str, entity_text: str, bound: str | None
    ) -> None:
        quota_type = _quota_type(type_name)
        if quota_type is None:
            return
        entity, value = _entity(entity_text), _bound(bound)
        if entity is None or (bound is not None and value is None):
            self.unread_lines.append(number)
            return
        at_ms = self._clock.epoch_ms(stamp)
        self.quota_events.append(
            QuotaEvent(
                quota_type=quota_type,
                quota_user=entity[0],
                quota_client_id=entity[1],
                bound=value,
                broker_id=self._broker_id,
                earliest_ms=at_ms,
                latest_ms=at_ms,
                source="server_log",
                source_file=self._source_file,
                source_line=number,
            )
        )

    def _life(self, stamp: str, number: int, text: str) -> None:
        """Take a line of a start or an end into account; the first line of a start is the start."""
        if STARTING.search(text):
            at_ms = self._clock.epoch_ms(stamp)
            is_again = text in self._start_texts and (
                at_ms - self.starts[-1].started_ms >= STARTING_AGAIN_MS
            )
            if not self._is_starting or is_again:
                self._start(at_ms, number, text)
            self._start_texts.add(text)
        elif STARTED.search(text):
            # Where only this logger is on, requests may have been served some ms before.
            if not self._is_starting:
                self._start(self._clock.epoch_ms(stamp), number, text)
            self._is_starting = False
        elif STOPPED.search(text):
            self._is_starting = False

    def _start(self, at_ms: int, number: int, text: str) -> None:
        file = self._source_file
        self.starts.append(BrokerStart(self._broker_id, at_ms, SERVER_LOG, file, number, text))
        self._start_texts, self._is_starting = set(), True

    def _throttle(self, stamp: str, number: int, violation: re.Match[str]) -> None:
        quota_type = _quota_type(violation[1])
        if quota_type is not None:
            self.throttles.append(
                ThrottleRecord(
                    broker_id=self._broker_id,
                    at_ms=self._clock.epoch_ms(stamp),
                    quota_type=quota_type,
                    user=unquote_plus(violation[2]),
                    client_id=violation[3],
                    throttle_time_ms=int(violation[4]),
                    source_file=self._source_file,
                    source_line=number,
                )
            )


def _at_first(pattern: re.Pattern[str], words: str, text: str) -> re.Match[str] | None:
    index = text.find(words)
    return None if index < 0 else pattern.match(text, index)


def _without_logger(text: str) -> str:
    text = text.rstrip()
    begin = text.rfind(" (")
    if begin >= 0 and _LOGGER.fullmatch(text, begin + 1):
        return text[:begin].rstrip()
    return text


def _quota_type(name: str) -> str | None:
    return _QUOTA_TYPES.get(name.replace("_", "").lower())


def _entity(text: str) -> QuotaEntity | None:
    """Return the entity of a text like ``default user client-id sink``, None for another text."""
    found = _ENTITY.fullmatch(text.strip())
    if found is None:
        return None
    user = DEFAULT if found["default_user"] else found["user"] and unquote_plus(found["user"])
    client_id = DEFAULT if found["default_client"] else found["client"]
    return None if user is None and client_id is None else (user, client_id)


def _bound(text: str | None) -> float | None:
    try:
        bound = None if text is None else float(text)
    except ValueError:
        return None
    return None if bound is None or math.isnan(bound) else bound


def _counted_once(events: Iterable[QuotaEvent]) -> list[QuotaEvent]:
    """Return ``events`` without the second line of a change; see :func:`read_server_log`."""
    kept: list[QuotaEvent] = []
    last: dict[tuple[str, QuotaEntity], int] = {}
    for event in events:
        key = (event.quota_type, event.entity)
        index = last.get(key)
        if index is not None and _is_same_change(kept[index], event):
            if event.quota_type != "controller_mutation_rate":
                kept[index] = event
            continue
        last[key] = len(kept)
        kept.append(event)
    return kept


def _is_same_change(first: QuotaEvent, second: QuotaEvent) -> bool:
    return (
        first.bound == second.bound
        and second.earliest_ms - first.earliest_ms <= LOGGED_TWICE_WITHIN_MS
    )


class LocalClock:
    """Turns local stamps into epoch milliseconds; knows the second pass of a repeated hour."""

    def __init__(self, timezone: dt.tzinfo) -> None:
        self._timezone = timezone
        self._last_stamp = ""
        self._second_pass_day = ""

    def observe(self, stamp: str) -> bool:
        """Notice a clock set back: lines are in time order, so an earlier stamp means that.

        Returns True if the stamp is a time at all.
        """
        if not _is_time(stamp):
            return False
        if stamp < self._last_stamp and self._is_set_back(stamp):
            self._second_pass_day = stamp[:10]
        self._last_stamp = stamp
        return True

    def epoch_ms(self, stamp: str) -> int:
        """Return the moment of ``stamp``, which was observed last."""
        fold = int(stamp[:10] == self._second_pass_day)
        local = dt.datetime.fromisoformat(stamp.replace(",", "."))
        moment = local.replace(tzinfo=self._timezone, fold=fold)
        return (moment - _EPOCH) // dt.timedelta(milliseconds=1)

    def _is_set_back(self, stamp: str) -> bool:
        # Threads may log a few ms out of order; a clock is set back by half an hour at least.
        before = dt.datetime.fromisoformat(self._last_stamp.replace(",", "."))
        after = dt.datetime.fromisoformat(stamp.replace(",", "."))
        return before - after > dt.timedelta(minutes=20)


def _is_time(stamp: str) -> bool:
    try:
        dt.datetime.fromisoformat(stamp.replace(",", "."))
    except ValueError:
        return False
    return True
