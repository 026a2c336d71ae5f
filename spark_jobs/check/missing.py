"""What an archive lacks, each with what to do; and whether anything of it can be audited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from spark_jobs.check.auditable import QuotaShare, controller_listeners
from spark_jobs.check.clock import ClockAnswer
from spark_jobs.check.looked_at import Beside, Looked
from spark_jobs.check.lost import Loss
from spark_jobs.check.missing_parts import (
    BLOCKS,
    DO_DEBUG,
    LIMITS,
    NOTE,
    REASONS,
    Missing,
    beside_missing,
    clock_missing,
    files_missing,
    hours_missing,
    lines_missing,
    lost_missing,
    named,
    unheard_missing,
)
from spark_jobs.ingest.lines.line_reader import Reason
from spark_jobs.quota.codes import QuotaType
from spark_jobs.wording.names import plural
from spark_jobs.wording.numbers import share


def missing_of(
    looked: Looked,
    beside: Beside,
    shares: Sequence[QuotaShare],
    clock: ClockAnswer,
    losses: Mapping[Loss, int] | None,
) -> list[Missing]:
    """Return all that is missing, what matters most first."""
    found = [
        *_refused(beside),
        *_without_requests(looked, beside),
        *_levels(looked),
        *_values(looked, beside, shares),
        *_sizes(looked, shares),
        *_controllers(looked, shares),
        *(clock_missing(clock) if looked.requests else ()),
        *files_missing(looked),
        *hours_missing(looked),
        *lines_missing(looked),
        *lost_missing(looked, losses),
        *beside_missing(looked, beside),
        *unheard_missing(looked, beside),
    ]
    weights = [BLOCKS, LIMITS, NOTE]
    return sorted(found, key=lambda missing: weights.index(missing.weight))


def can_be_audited(missing: Sequence[Missing]) -> bool:
    """Return True if something of the archive can be audited as it is."""
    return not any(m.weight == BLOCKS for m in missing)


def _refused(beside: Beside) -> Iterator[Missing]:
    for why in beside.refused:
        yield Missing(BLOCKS, f"an ingest would end: {why}", "do what it says, then check again")


def _without_requests(looked: Looked, beside: Beside) -> Iterator[Missing]:
    if not looked.files:
        what = "no request log: no file is named kafka-request.log*"
        if beside.ignored:
            what += f"; other files are {named(beside.ignored)}"
        yield Missing(
            BLOCKS, what, f"archive them below broker=<id>/ under that name, or {DO_DEBUG}"
        )
        return
    reasons = looked.quarantined
    unknown = reasons[Reason.UNKNOWN_BROKER]
    if unknown:
        addresses = sorted({a for f in looked.files for a in f.addresses})
        seen = f" (brokers answered at {named(addresses)})" if addresses else ""
        example = addresses[0] if addresses else "HOST:PORT"
        yield Missing(
            LIMITS if looked.requests else BLOCKS,
            f"{unknown:,} {plural(unknown, 'request')} of no known broker: neither a folder "
            f"broker=<id> nor --listener names it{seen}",
            f"put each broker's files below broker=<id>/, or pass --listener {example}=<id> for "
            "each address",
        )
    if looked.requests or unknown:
        return
    if looked.lines and not reasons:
        yield Missing(BLOCKS, "no line is a request: the logger stands above DEBUG", DO_DEBUG)
    elif reasons.keys() <= {Reason.BEFORE_2_0} and looked.lines:
        yield Missing(BLOCKS, "no request of Kafka 2.0 or later", REASONS[Reason.BEFORE_2_0][1])
    elif not looked.lines:
        yield Missing(
            BLOCKS, "every request log is empty or cannot be read", "look at what copies them"
        )
    else:
        yield Missing(BLOCKS, "no line is a request that can be read", "see the next lines")


def _values(looked: Looked, beside: Beside, shares: Sequence[QuotaShare]) -> Iterator[Missing]:
    if not looked.requests:
        return
    snapshot = (
        "print the quotas with kafka-configs.sh --describe into quota-snapshot-<epoch ms>.txt "
        "(docs/howto/own-archive.md)"
    )
    within = _within(looked)
    if not beside.events:
        yield Missing(
            BLOCKS, f"no quota value: no snapshot, and no change of one is logged{within}", snapshot
        )
        return
    if not any(s.auditable for s in shares):
        yield Missing(
            BLOCKS, f"no request whose size and quota value are both known{within}", snapshot
        )
    elif not beside.snapshots:
        lacking = [s for s in shares if s.without_value]
        listed = ", ".join(f"{s.quota_type} {share(s.without_value, s.requests)}" for s in lacking)
        if lacking:
            yield Missing(
                LIMITS,
                f"no snapshot of quotas: a value set before the log begins is unknown, so clients "
                f"without a known value ({listed} of its requests) may have one{within}",
                snapshot,
            )


def _within(looked: Looked) -> str:
    return "" if looked.is_whole else ", in the lines looked at (--all looks at every one)"


def _levels(looked: Looked) -> Iterator[Missing]:
    levels: Counter[str] = Counter()
    for look in looked.files:
        levels.update(look.levels)
    if levels["INFO"] and not levels["DEBUG"] and not levels["TRACE"]:
        yield Missing(
            BLOCKS,
            "every request was logged at INFO: at that level brokers log only requests of "
            "deprecated versions",
            DO_DEBUG,
        )


def _sizes(looked: Looked, shares: Sequence[QuotaShare]) -> Iterator[Missing]:
    is_text = any(look.formats["text"] for look in looked.files)
    for each in shares:
        if not each.unsized:
            continue
        what = f"{each.quota_type}: {each.unsized:,} of {each.requests:,} requests without a size"
        if each.quota_type == QuotaType.CONTROLLER_MUTATION_RATE:
            what = what.replace("a size", "a number of partitions") + _within(looked)
            do = "let the archive begin where the topics were created; else nothing"
        elif is_text:
            do = "set kafka.request.logger to TRACE: text logs of 2.0 to 2.7 have sizes only there"
        else:
            do = "look for a newer quota-audit: this one does not know the request's version"
        yield Missing(LIMITS, what, do)


def _controllers(looked: Looked, shares: Sequence[QuotaShare]) -> Iterator[Missing]:
    mutations = shares[-1]
    if mutations.without_controller:
        yield Missing(
            LIMITS,
            f"{mutations.quota_type}: {mutations.without_controller:,} of {mutations.requests:,} "
            "mutations without the line of the controller that decided",
            "archive the request logs of all controllers, with the same logger at DEBUG",
        )
    elif looked.requests and not mutations.requests and not controller_listeners(looked.groups):
        yield Missing(
            NOTE,
            "no controller's log and no mutation: whether topics are created is not known",
            "archive the controllers' request logs too, if controller_mutation_rate is set",
        )
