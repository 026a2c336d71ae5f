"""What-if in words: its codes and terms, and the first sentences of its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.publish.facts.whatif import (
    Replay,
    Row,
    Values,
    amount,
    by_kind_and_mode,
    by_replay,
    modes_of,
    replay_of,
    totals,
)
from spark_jobs.publish.page.whatif_tables import harm_in_words
from spark_jobs.wording.numbers import count, duration
from spark_jobs.wording.visible_text import shortened, visible


@dataclass(frozen=True, slots=True)
class ModeWords:
    """A mode for people: what it is called, how it replays, where it ends."""

    name: str
    how: str
    meaning: str
    limits: str


MODES = {
    "as_logged": ModeWords(
        "as logged",
        "as logged",
        "Every request arrives when the log says, whatever the policy answers it. What is refused "
        "is not sent again, except where a policy plays retries itself.",
        "Under a laxer rule the clients would have sent more, under a stricter one they would have "
        "waited and sent less, so that it is shown too hard; throttles of consumers come out too "
        "low, unless the audit found what a throttled fetch had tried to read.",
    ),
    "closed_loop": ModeWords(
        "closed loop",
        "in the closed loop",
        "Each client waits and tries again as the policy's answers tell it: its next request is "
        "sent its own think time, which is the log's, after the one before is answered and its "
        "throttle is over.",
        "Of connections that share one quota the sum can be predicted, the share of each cannot; "
        "brokers serve a request as fast as they did, and what clients wanted but never sent is "
        "known only as far as their batches tell.",
    ),
}
"""By ``tables.WHATIF_MODES``."""

BOTH_MODES = "Each policy was replayed in both ways; compare policies of one way with each other."
OWN_DAY = "The day is replayed on its own: it begins with nothing counted."

KINDS = {
    "produce": "Produce",
    "fetch": "Fetch",
    "mutation": "Mutation of topics",
    "other": "Other requests",
}
"""By ``tables.WHATIF_KINDS``."""

KIND_UNITS = {
    "produce": "amounts are bytes on the wire",
    "fetch": "amounts are bytes on the wire",
    "mutation": "amounts are partitions",
    "other": "they have no amounts",
}

TERMS = (
    (
        "Amounts",
        "Bytes on the wire of produces and fetches, partitions of mutations that create or delete "
        "topics or add partitions. Other requests have none.",
    ),
    (
        "Share",
        "Where several clients (user and client-id) use one state of a policy, a client's share is "
        "the bound over the clients active in the last 10 s. It is inside while its own rate over "
        "those 10 s is at most that. A state that nobody else uses is not shared. Of quotas of "
        "topics the broker is the state, shared by all of its clients.",
    ),
)
"""Terms that are no column, with their meanings."""


_NAMED_MAX = 3
_LABEL_LENGTH_MAX = 60


@dataclass(frozen=True, slots=True)
class WhatifAnswer:
    """The answer in a title, and a few sentences for each mode."""

    title: str
    by_mode: Mapping[str, tuple[str, ...]]


def answer(rows: Sequence[Row], replays: Sequence[Replay]) -> WhatifAnswer:
    """Return the answer that ``rows`` give; ``replays`` are those that have any, in order."""
    if not rows:
        return WhatifAnswer("No policy decided on anything", {})
    by_mode = {
        mode: tuple(_sentences(rows, [replay for replay in replays if replay.mode == mode]))
        for mode in modes_of(replays)
    }
    return WhatifAnswer(_title(rows, replays), by_mode)


def _title(rows: Sequence[Row], replays: Sequence[Replay]) -> str:
    lost = len({replay_of(row) for row in rows if row["lost"]})
    harm = len({replay_of(row) for row in rows if row["harmed_requests"]})
    if not lost and not harm:
        return "Nothing is lost, and no client pays for others"
    lost_under, harm_under = (
        f" under {count(number)}" if len(replays) > 1 else "" for number in (lost, harm)
    )
    noun = "policies" if len(modes_of(replays)) == 1 else "replays"
    of_all = f" of {count(len(replays))} {noun}" if len(replays) > 1 else ""
    if not harm:
        return f"Something is lost{lost_under}{of_all}; no client pays for others"
    if not lost:
        return f"Clients pay for others{harm_under}{of_all}; nothing is lost"
    return f"Something is lost{lost_under}{of_all}, and clients pay for others{harm_under}"


def _sentences(rows: Sequence[Row], replays: Sequence[Replay]) -> Iterator[str]:
    """Yield the sentences on the ``replays`` of one mode."""
    for kind, _, of_kind in by_kind_and_mode(rows, replays):
        found = {label: totals(of_label) for label, of_label in of_kind.items()}
        parts = (_throttled(found), *_amounts_not_served(found, kind))
        yield f"{KINDS[kind]}: {'; '.join(parts)}."
    paid = [
        f"under {_named([replay.label])} {harm_in_words(of_replay)}"
        for replay, of_replay in by_replay(rows, replays).items()
        if any(row["harmed_requests"] for row in of_replay)
    ]
    if paid:
        yield f"Paying for others: {'; '.join(paid)}."


def _throttled(found: Mapping[str, Values]) -> str:
    times = {label: values["throttle_time_ms"] for label, values in found.items()}
    least, most = min(times.values()), max(times.values())
    if not most:
        return "nobody is throttled"
    if least == most:
        return f"throttle time {duration(least)}{' under each policy' if len(times) > 1 else ''}"
    lowest, highest = (
        _named([label for label, time in times.items() if time == bound]) for bound in (least, most)
    )
    longest = f"{duration(most)} under {highest}"
    if not least:
        return f"no throttle time under {lowest}, up to {longest}"
    return f"throttle time {duration(least)} under {lowest}, up to {longest}"


def _amounts_not_served(found: Mapping[str, Values], kind: str) -> Iterator[str]:
    for column, words in (("lost", "lost"), ("waiting", "still waiting at the end")):
        there = sorted(
            ((label, values[column]) for label, values in found.items() if values[column]),
            key=lambda item: -item[1],
        )
        if there:
            yield _listed(
                [
                    f"{amount(value, kind)}{f' {words}' if i == 0 else ''} under {_named([label])}"
                    for i, (label, value) in enumerate(there)
                ]
            )


def _named(labels: Sequence[str]) -> str:
    return _listed([f"'{shortened(visible(label), _LABEL_LENGTH_MAX)}'" for label in labels])


def _listed(parts: Sequence[str]) -> str:
    """Return the first few parts, and how many more there are."""
    more = len(parts) - _NAMED_MAX
    if more > 0:
        return f"{', '.join(parts[:_NAMED_MAX])} and {count(more)} more"
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
