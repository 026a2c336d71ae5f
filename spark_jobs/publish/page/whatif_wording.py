"""What-if's codes in words: how clients were played, kinds of requests, terms."""

from __future__ import annotations

from dataclasses import dataclass


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
