"""What a capture drives: a text of timed steps, one a line, checked before anything runs.

::

    0 cluster <combined|dedicated|zookeeper> [<setting>=<value>] ...
    <at ms> topic <name> <partitions> <replicas>
    <at ms> quota <entity>[,<entity>] <quota type>=<value>|- ...
    <at ms> produce <user> <client-id> <topic> <record bytes> <records/s> <ms> <acks> <idempotent>
            [<record bytes at most> [<true: what is late is sent at once>]]
    <at ms> consume <user> <client-id> <topic> <ms>
    <at ms> share <user> <client-id> <topic> <ms>
    <at ms> mutate <user> <client-id> <topics per request> <partitions> <requests/s> <ms> <retry>
            [strict|permissive]
    <at ms> restart <node>
    <at ms> failover
    <at ms> pause <node> <ms>
    <at ms> busy <processes> <ms>

Times count from the start of the load. The user ``-`` is no authentication (ANONYMOUS); an entity
is ``user=`` or ``client-id=`` with a name or ``<default>``; the value ``-`` removes a quota.
Records have one size, or each one between two. ``mutate`` creates topics; after every third such
request it adds two partitions to, or deletes, an earlier topic, in turn. Without ``cluster`` node 1
is broker and controller and node 2 a broker; its settings are of ``server.properties``, but
``lab.server.log`` is the level of the quota managers' lines in ``server.log`` (DEBUG, INFO or OFF),
and ``lab.metrics`` after how many milliseconds the brokers' metrics of quotas are read again.
``restart`` stops a node as an operator does and starts it again; ``failover`` stops the quorum's
leader for good; ``pause`` holds a node's process still; ``busy`` runs processes that do nothing but
keep the machine's cores from the brokers. Empty lines and lines that start with ``#`` say nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from spark_jobs.errors import BadInputError

QUOTA_TYPES = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
ENTITY_TYPES = ("user", "client-id")
ANONYMOUS = "-"

_Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
# What a mistyped scenario may cost the machine has an end.
_Processes = Annotated[int, msgspec.Meta(ge=1, le=8)]
_BoundedTime = Annotated[int, msgspec.Meta(ge=1, le=600_000)]
# One thread counts them out: more than it can would only spin.
_PerSecond = Annotated[float, msgspec.Meta(gt=0, le=100_000)]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]+$")]


class Cluster(msgspec.Struct, frozen=True, tag_field="verb", tag="cluster"):
    """Run this layout of nodes with these settings; at 0 ms and the first line only."""

    at_ms: Literal[0]
    layout: Literal["combined", "dedicated", "zookeeper"]
    settings: dict[str, str]


class Restart(msgspec.Struct, frozen=True, tag_field="verb", tag="restart"):
    """Stop a node and start it again."""

    at_ms: _Milliseconds
    node_id: _Count


class Failover(msgspec.Struct, frozen=True, tag_field="verb", tag="failover"):
    """Stop the quorum's leader, so that another controller takes over."""

    at_ms: _Milliseconds


class Pause(msgspec.Struct, frozen=True, tag_field="verb", tag="pause"):
    """Hold a node's process still: no thread of it runs, and its clock goes on."""

    at_ms: _Milliseconds
    node_id: _Count
    duration_ms: _BoundedTime


class Busy(msgspec.Struct, frozen=True, tag_field="verb", tag="busy"):
    """Keep cores of the machine busy with processes that end by themselves."""

    at_ms: _Milliseconds
    processes: _Processes
    duration_ms: _BoundedTime


class Topic(msgspec.Struct, frozen=True, tag_field="verb", tag="topic"):
    """Create a topic, without authentication."""

    at_ms: _Milliseconds
    name: _Name
    partitions: _Count
    replicas: _Count


class Quota(msgspec.Struct, frozen=True, tag_field="verb", tag="quota"):
    """Set (a number) or remove (None) quotas of one entity."""

    at_ms: _Milliseconds
    entity: dict[str, str]
    bounds: dict[str, float | None]


class Produce(msgspec.Struct, frozen=True, tag_field="verb", tag="produce"):
    """Send records at a steady rate, at most as fast as the broker lets it.

    Each has ``record_bytes``, or any size from that up to ``record_bytes_max``. An application that
    ``is_catching_up`` hands its producer at once what is late, however slow its machine is; another
    one goes on at its rate from there.
    """

    at_ms: _Milliseconds
    user: _Name
    client_id: _Name
    topic: _Name
    record_bytes: _Count
    records_per_second: _PerSecond
    duration_ms: _Count
    acks: Literal["0", "1", "all"]
    is_idempotent: bool
    record_bytes_max: _Count | None = None
    is_catching_up: bool = False


class Consume(msgspec.Struct, frozen=True, tag_field="verb", tag="consume"):
    """Read a topic from its start as one consumer group."""

    at_ms: _Milliseconds
    user: _Name
    client_id: _Name
    topic: _Name
    duration_ms: _Count


class Share(msgspec.Struct, frozen=True, tag_field="verb", tag="share"):
    """Read what is produced to a topic from then on as one share group (KIP-932)."""

    at_ms: _Milliseconds
    user: _Name
    client_id: _Name
    topic: _Name
    duration_ms: _Count


class Mutate(msgspec.Struct, frozen=True, tag_field="verb", tag="mutate"):
    """Create, extend and delete topics; ``permissive`` speaks the older request versions."""

    at_ms: _Milliseconds
    user: _Name
    client_id: _Name
    topics_per_request: _Count
    partitions: _Count
    requests_per_second: _PerSecond
    duration_ms: _Count
    is_retrying: bool
    mode: Literal["strict", "permissive"] = "strict"


LabStep = Restart | Failover | Pause | Busy
"""What the lab does itself, while clients do the rest."""
Step = Cluster | Topic | Quota | Produce | Consume | Share | Mutate | LabStep
_STEPS: dict[str, type[msgspec.Struct]] = {
    "cluster": Cluster,
    "topic": Topic,
    "quota": Quota,
    "produce": Produce,
    "consume": Consume,
    "share": Share,
    "mutate": Mutate,
    "restart": Restart,
    "failover": Failover,
    "pause": Pause,
    "busy": Busy,
}
DEFAULT_CLUSTER = Cluster(0, "combined", {})
_SETTING = re.compile(r"[a-z][a-z.]*")


@dataclass(frozen=True, slots=True)
class Scenario:
    """The text as written and its steps as ``(line, step)`` in the text's order."""

    text: str
    steps: tuple[tuple[str, Step], ...]

    @property
    def end_ms(self) -> int:
        """Return when the last step is over, in ms from the start of the load."""
        return max(step.at_ms + getattr(step, "duration_ms", 0) for _, step in self.steps)

    @property
    def users(self) -> tuple[str, ...]:
        """Return the names that authenticate, sorted."""
        named = {getattr(step, "user", ANONYMOUS) for _, step in self.steps}
        return tuple(sorted(named - {ANONYMOUS}))

    @property
    def cluster(self) -> Cluster:
        """Return which nodes are to run."""
        return next((step for _, step in self.steps if isinstance(step, Cluster)), DEFAULT_CLUSTER)

    @property
    def lab_steps(self) -> tuple[LabStep, ...]:
        """Return what happens to nodes and their machine, in order of time."""
        found = [step for _, step in self.steps if isinstance(step, LabStep)]
        return tuple(sorted(found, key=lambda step: step.at_ms))

    @property
    def permissive_lines(self) -> tuple[str, ...]:
        """Return the lines that only a client of the older request versions can drive."""
        return tuple(line for line, step in self.steps if _is_permissive(step))

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines that clients of the brokers' version drive."""
        return tuple(
            line
            for line, step in self.steps
            if not (_is_permissive(step) or isinstance(step, Cluster | LabStep))
        )


def parse_scenario(text: str) -> Scenario:
    """Return the checked steps of a scenario; ``BadInputError`` names the line that is wrong."""
    steps = []
    topics: set[str] = set()
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            step = _parse_step(line.split())
            if isinstance(step, Cluster) and steps:
                raise ValueError("the cluster is not the first line")
            _check(step, topics)
        except (ValueError, msgspec.ValidationError) as error:
            raise BadInputError(f"scenario line {number}, {line!r}: {error}") from error
        steps.append((line, step))
    if not steps:
        raise BadInputError("the scenario has no step: write at least one, as `0 topic orders 4 1`")
    return Scenario(text, tuple(steps))


def _parse_step(words: list[str]) -> Step:
    if len(words) < 2 or words[1] not in _STEPS:
        raise ValueError(f"expected `<at ms> {'|'.join(_STEPS)} ...`")
    at_ms, verb, *arguments = words
    step = _STEPS[verb]
    if step is Quota:
        values = _quota_fields(arguments)
    elif step is Cluster:
        values = {"layout": arguments[0] if arguments else "", "settings": _settings(arguments[1:])}
    else:
        values = dict(zip(step.__struct_fields__[1:], arguments, strict=False))
        if len(arguments) > len(values):
            raise ValueError(f"{len(arguments) - len(values)} words too many after `{verb}`")
    checked: Step = msgspec.convert({"verb": verb, "at_ms": at_ms, **values}, Step, strict=False)
    return checked


def _settings(words: list[str]) -> dict[str, str]:
    settings = {}
    for word in words:
        key, _, value = word.partition("=")
        if not _SETTING.fullmatch(key) or not value:
            raise ValueError(f"found {word!r}, expected a setting of the broker = a value")
        settings[key] = value
    return settings


def _quota_fields(arguments: list[str]) -> dict[str, Any]:
    if len(arguments) < 2:
        raise ValueError("expected an entity and at least one `<quota type>=<value>`")
    entity = _pairs(arguments[0].split(","), ENTITY_TYPES)
    bounds = _pairs(arguments[1:], QUOTA_TYPES)
    return {
        "entity": entity,
        "bounds": {key: None if value == "-" else float(value) for key, value in bounds.items()},
    }


def _pairs(words: list[str], keys: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in keys or not value:
            raise ValueError(f"found {word!r}, expected {'|'.join(keys)} = a value")
        if key in pairs:
            raise ValueError(f"{key} is given twice")
        pairs[key] = value
    return pairs


def _check(step: Step, topics: set[str]) -> None:
    """Raise ``ValueError`` for what the words allow and a client would only refuse when it runs."""
    if isinstance(step, Topic):
        topics.add(step.name)
    elif isinstance(step, Quota):
        bad = [
            key
            for key, value in step.bounds.items()
            if value is not None and not 0 < value < math.inf
        ]
        if bad:
            raise ValueError(f"{bad[0]} must be a number above 0")
    elif isinstance(step, Produce | Consume | Share) and step.topic not in topics:
        raise ValueError(f"no earlier line creates the topic {step.topic!r}")
    if isinstance(step, Produce):
        _check_produce(step)


def _check_produce(step: Produce) -> None:
    if step.is_idempotent and step.acks != "all":
        raise ValueError(f"an idempotent producer needs acks all, not {step.acks}")
    if step.record_bytes_max is not None and step.record_bytes_max < step.record_bytes:
        raise ValueError(f"records of {step.record_bytes} to {step.record_bytes_max} bytes: none")


def _is_permissive(step: Step) -> bool:
    return isinstance(step, Mutate) and step.mode == "permissive"
