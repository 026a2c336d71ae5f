"""Everything an archive's check is made of: its files, samples of its logs, its quota values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from spark_jobs.check.auditable import (
    QuotaShare,
    controller_listeners,
    quota_shares,
    uses_zookeeper,
)
from spark_jobs.check.clock import JOURNAL, ClockAnswer, ClockSign, clock_answer, pairs_of_brokers
from spark_jobs.check.hours import hours_of_brokers
from spark_jobs.check.look_at_log import Looking, look_at_log
from spark_jobs.check.looked_at import Beside, Gathered, Looked
from spark_jobs.check.lost import LINES_MAX, lost_requests
from spark_jobs.check.missing import missing_of
from spark_jobs.check.result import AuditSize, Check, audit_size
from spark_jobs.check.sampling import FILES_MAX, SAMPLE_BYTES, chosen_files, share_of_file
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, LogFile
from spark_jobs.ingest.archive_clock import lines_until_ms
from spark_jobs.ingest.archived_file import read_small_text
from spark_jobs.ingest.broker_facts import broker_facts
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.ingest.lines.line_reader import Reason
from spark_jobs.ingest.lines.served_apis import ServedApis, newer_sentences
from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.ingest.quota_sources.java_properties import read_properties
from spark_jobs.ingest.read_quota_sources import KnownQuotas, known_quotas
from spark_jobs.resolve.timeline.enabled_levels import LevelRule
from spark_jobs.resolve.timeline.intervals import quota_intervals
from spark_jobs.resolve.timeline.resolution import QuotaTimeline
from spark_jobs.settings import IngestSettings

SERVER_LOG_BYTES = 64 << 20
"""So many bytes of server logs, packed as they are, are read: each broker's first files."""


def check_archive(
    archive: Archive, where: str, ignored: Sequence[str], options: IngestOptions, *, reads_all: bool
) -> Check:
    """Return the findings of an ingest of ``archive``, made on samples unless ``reads_all``.

    ``ignored`` are files below ``where`` that nothing looks at.
    """
    looked = _look(archive, options, reads_all=reads_all)
    refused = [f.refused for f in looked.files if f.refused]
    try:
        served = ServedApis.of_all(look.served_beyond for look in looked.files)
        facts = broker_facts(archive, options, looked.broker_ids, served.beyond)
    except BadInputError as error:
        refused.append(str(error))
        facts = []
        options = replace(options, use_server_properties=False)
    read, quotas, why = _quotas(archive, options, looked, reads_all=reads_all)
    refused += [said for said in why if said not in refused]
    beside = _beside(archive, read, quotas, facts, ignored, refused)
    is_zookeeper = any(f["uses_zookeeper"] for f in facts) or uses_zookeeper(looked.groups)
    shares = _shares(looked, quotas, facts, is_zookeeper=is_zookeeper)
    clock = _clock(looked, quotas, options.timezone)
    losses = _losses(looked)
    return Check(
        archive=where,
        cluster=archive.cluster,
        looked=looked,
        beside=beside,
        shares=tuple(shares),
        clock=clock,
        losses=losses,
        size=_size(looked),
        missing=tuple(missing_of(looked, beside, shares, clock, losses)),
    )


def _beside(
    archive: Archive,
    read: Archive,
    quotas: KnownQuotas,
    facts: Sequence[Mapping[str, Any]],
    ignored: Sequence[str],
    refused: Sequence[str],
) -> Beside:
    return Beside(
        server_logs=len(archive.server_logs),
        server_logs_read=len(read.server_logs),
        server_log_brokers=_brokers(log.broker_id for log in archive.server_logs),
        property_brokers=frozenset(archive.properties),
        snapshots=len(archive.snapshots),
        journals=len(archive.journals),
        versions=tuple(f"{f['broker_id']}: {f['version']}" for f in facts if f["version"]),
        listeners=_listeners(archive),
        events=dict(Counter(row["source"] for row in quotas.rows).most_common()),
        throttle_records=sum(len(log.throttles) for log in quotas.server_logs),
        starts=sum(len(log.starts) for log in quotas.server_logs),
        ignored=tuple(ignored),
        warnings=(*quotas.warnings, *newer_sentences(facts)),
        refused=tuple(refused),
    )


def _listeners(archive: Archive) -> dict[int, frozenset[str]]:
    """Return the names of the listeners in each broker's server.properties that can be read."""
    names = {}
    for broker, path in archive.properties.items():
        with suppress(BadInputError):
            found = read_properties(read_small_text(path, "replace"), path.name)
            if "listeners" in found:
                listed = found["listeners"].value.split(",")
                names[broker] = frozenset(one.partition("://")[0].strip().upper() for one in listed)
    return names


def _brokers(ids: Iterable[int | None]) -> frozenset[int]:
    return frozenset(broker for broker in ids if broker is not None)


def _look(archive: Archive, options: IngestOptions, *, reads_all: bool) -> Looked:
    """Look at all request logs or at the chosen ones, the smallest first."""
    logs = archive.request_logs
    chosen = list(logs)
    if not reads_all:
        chosen = chosen_files([(log.broker_id, log) for log in logs], FILES_MAX)
    looking = Looking(
        LogOptions(
            options.timezone,
            options.prefix,
            dict(options.listener_brokers),
            lines_until_ms(archive, options.timezone, options.prefix),
        ),
        IngestSettings().unpacked_ratio_max,
        keeps_lines=True,
    )
    left, kept = SAMPLE_BYTES, 0
    gathered = Gathered()
    for read, log in enumerate(sorted(chosen, key=lambda log: (log.size_bytes, log.source_file))):
        share = None if reads_all else share_of_file(left, len(chosen) - read)
        look = look_at_log(log, looking, share)
        left = max(0, left - look.unpacked_bytes)
        kept += look.requests
        if looking.keeps_lines and (kept > LINES_MAX or not look.is_whole):
            # Of a part, or of too many, lost lines are not looked for.
            looking = replace(looking, keeps_lines=False)
            for one in gathered.files:
                one.client_lines.clear()
        if not looking.keeps_lines:
            look.client_lines.clear()
        gathered.add(look)
    names = {log.source_file for log in chosen}
    beside = [(log.broker_id, log.size_bytes) for log in logs if log.source_file not in names]
    return gathered.looked(beside)


def _quotas(
    archive: Archive, options: IngestOptions, looked: Looked, *, reads_all: bool
) -> tuple[Archive, KnownQuotas, list[str]]:
    """Return the archive as far as its server logs were read, all values known, and what is wrong.

    Where a file does not read, what the others tell is still returned.
    """
    read = archive if reads_all else replace(archive, server_logs=_first(archive.server_logs))
    alterations = [row for f in looked.files for row in f.alterations]
    first_ms = looked.span_ms[0] if looked.span_ms else 0
    brokers = looked.broker_ids or sorted(_brokers(log.broker_id for log in read.server_logs))
    why: list[str] = []
    for part, part_options in _fewer(read, options):
        try:
            return part, known_quotas(part, part_options, alterations, brokers, first_ms), why
        except BadInputError as error:
            why.append(str(error))
    return read, KnownQuotas([], ()), why


def _fewer(archive: Archive, options: IngestOptions) -> Iterator[tuple[Archive, IngestOptions]]:
    """Yield an archive with less and less beside its request logs."""
    yield archive, options
    without_files = replace(archive, snapshots=(), journals=())
    yield without_files, replace(options, snapshots=())
    yield replace(archive, server_logs=()), options
    bare = replace(without_files, server_logs=())
    yield bare, replace(options, snapshots=())


def _first(logs: Iterable[LogFile]) -> tuple[LogFile, ...]:
    left, first = SERVER_LOG_BYTES, []
    for log in chosen_files([(log.broker_id, log) for log in logs], FILES_MAX):
        if log.size_bytes <= left:
            left -= log.size_bytes
            first.append(log)
    return tuple(first)


def _shares(
    looked: Looked,
    quotas: KnownQuotas,
    facts: Sequence[Mapping[str, Any]],
    *,
    is_zookeeper: bool,
) -> list[QuotaShare]:
    events = [QuotaEvent.of_row(row) for row in quotas.rows]
    rules = {
        f["broker_id"]: LevelRule.of_broker(f["version"], uses_zookeeper=f["uses_zookeeper"])
        for f in facts
    }
    timeline = QuotaTimeline.of_rows(quota_intervals(events, looked.broker_ids), rules)
    first_ms, last_ms = looked.span_ms or (0, 0)
    known: dict[tuple[str, int, str, str], bool] = {}

    def has_value(quota_type: str, broker_id: int, user: str, client_id: str | None) -> bool:
        key = (quota_type, timeline.alike(broker_id), user, client_id or "")
        if key not in known:
            known[key] = timeline.has_quotas(quota_type) and any(
                r.bound is not None and r.valid_from_ms <= last_ms and first_ms < r.valid_until_ms
                for r in timeline.resolve(quota_type, user, client_id or "", broker_id)
            )
        return known[key]

    mutations = [row for f in looked.files for row in f.mutations]
    return quota_shares(
        looked.groups,
        mutations,
        has_value,
        is_zookeeper=is_zookeeper,
        is_whole=looked.is_whole,
    )


def _clock(looked: Looked, quotas: KnownQuotas, read_as: str) -> ClockAnswer:
    signs = [sign for f in looked.files for sign in f.signs]
    events = [QuotaEvent.of_row(row) for row in quotas.rows]
    signs += list(_journal_signs(events))
    signs += pairs_of_brokers(_told_by_several(looked, events))
    dated = [f for f in looked.files if f.requests]
    return clock_answer(
        signs,
        read_as,
        has_offsets=bool(dated) and all(f.has_offsets for f in dated),
        skipped_lines=looked.quarantined[Reason.BAD_TIME],
    )


def _journal_signs(events: Sequence[QuotaEvent]) -> Iterator[ClockSign]:
    """Yield the distance of server logs' stamps from the journal's times of changes logged once."""
    noted = {_change(e): e.latest_ms for e in events if e.source == "journal"}
    logged = [e for e in events if e.source == "server_log"]
    for event in logged:
        same = sum(_change(e) == _change(event) and e.broker_id == event.broker_id for e in logged)
        if same == 1 and _change(event) in noted:
            apart_ms = event.earliest_ms - noted[_change(event)]
            yield ClockSign(JOURNAL, event.broker_id, apart_ms, event.earliest_ms)


def _change(event: QuotaEvent) -> tuple[object, ...]:
    return event.quota_type, event.entity, event.bound


def _told_by_several(
    looked: Looked, events: Sequence[QuotaEvent]
) -> Iterator[tuple[object, int | None, int]]:
    """Yield (thing, broker, time) of what several brokers log: quota changes and mutations."""
    for event in events:
        if event.source == "server_log":
            yield _change(event), event.broker_id, event.earliest_ms
    for look in looked.files:
        for row in look.mutations:
            topics = tuple(sorted(m["topic"] or "" for m in row["mutations"]))
            thing = row["api_name"], row["user"], row["client_id"], row["correlation_id"], topics
            yield thing, row["broker_id"], row["log_time_ms"]


def _losses(looked: Looked) -> Counter[str] | None:
    batches = [rows for f in looked.files for rows in f.client_lines]
    if not looked.is_whole or sum(map(len, batches)) != looked.requests:
        return None
    return lost_requests(batches, controller_listeners(looked.groups))


def _size(looked: Looked) -> AuditSize:
    requests = float(sum(looked.hours.values()))
    days = {hour // 24 for hour in looked.hours}
    if not looked.is_whole:
        hours = hours_of_brokers(looked).values()
        days = {h // 24 for of_broker in hours for h in of_broker.seen | of_broker.unread}
        requests = looked.estimated("requests") if days else 0.0
    unpacked_bytes, lines = looked.estimated("unpacked_bytes"), looked.estimated("lines")
    return audit_size(unpacked_bytes, lines, requests, len(days), os.cpu_count() or 1)
