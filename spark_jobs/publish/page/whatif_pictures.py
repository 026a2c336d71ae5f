"""Which clients of a what-if get a picture, and what is said about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_jobs.publish.page.whatif_bars import Bar, BarGroup, bars_picture
from spark_jobs.publish.page.whatif_figures import (
    Client,
    Replay,
    Row,
    by_replay,
    client_of,
    modes_of,
    seconds,
    totals,
)
from spark_jobs.publish.page.whatif_wording import KINDS, MODES
from spark_jobs.wording.names import plural
from spark_jobs.wording.visible_text import shortened, visible


@dataclass(frozen=True, slots=True)
class ClientPicture:
    """One client's throttle times, on all brokers, and where they are from."""

    client: str
    where: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class ClientPictures:
    """The pictures of the clients that are throttled most, of ``clients_total`` that are."""

    pictures: tuple[ClientPicture, ...]
    clients_total: int
    has_harm: bool


def client_pictures(
    rows: Sequence[Row], replays: Sequence[Replay], pictures_max: int
) -> ClientPictures:
    """Return a picture for each of the clients that some policy throttles longest."""
    by_client: dict[Client, list[Row]] = {}
    for row in rows:
        by_client.setdefault(client_of(row), []).append(row)
    groups = {client: _groups(of_client, replays) for client, of_client in by_client.items()}
    longest = {client: _longest_ms(of_client) for client, of_client in groups.items()}
    throttled = sorted(
        (client for client in by_client if longest[client]),
        key=lambda client: (-longest[client], client.sort_key),
    )
    shown = throttled[:pictures_max]
    pictures = tuple(
        ClientPicture(
            client.name,
            _where(by_client[client]),
            bars_picture(groups[client], _label(client, groups[client]), repr(client)),
        )
        for client in shown
    )
    has_harm = any(row["harm_time_ms"] for client in shown for row in by_client[client])
    return ClientPictures(pictures, len(throttled), has_harm)


def _groups(rows: Sequence[Row], replays: Sequence[Replay]) -> tuple[BarGroup, ...]:
    """Return the bars of one client by mode; those of policies that decided on its requests."""
    bars: dict[str, list[Bar]] = {}
    for replay, of_replay in by_replay(rows, replays).items():
        found = totals(of_replay)
        bar = Bar(replay.label, found["throttle_time_ms"], found["harm_time_ms"])
        bars.setdefault(replay.mode, []).append(bar)
    has_modes = len(modes_of(replays)) > 1
    return tuple(
        BarGroup(MODES[mode].name if has_modes else "", tuple(of_mode))
        for mode, of_mode in bars.items()
    )


def _longest_ms(groups: Sequence[BarGroup]) -> float:
    return max(bar.throttle_time_ms for group in groups for bar in group.bars)


def _where(rows: Sequence[Row]) -> str:
    throttled = [row for row in rows if row["throttle_time_ms"]]
    brokers = sorted({row["broker_id"] for row in throttled})
    kinds = [words for kind, words in KINDS.items() if any(r["kind"] == kind for r in throttled)]
    where = f"{plural(len(brokers), 'broker')} {', '.join(map(str, brokers))}"
    return f"{' and '.join(kinds)}, {where}"


def _label(client: Client, groups: Sequence[BarGroup]) -> str:
    parts = [
        f"{f'{group.title}: ' if group.title else ''}{', '.join(map(_in_words, group.bars))}"
        for group in groups
    ]
    return f"Throttle time of {client.name}. {'; '.join(parts)}."


def _in_words(bar: Bar) -> str:
    words = f"{shortened(visible(bar.label))} {seconds(bar.throttle_time_ms)} s"
    return f"{words}, {seconds(bar.harm_time_ms)} s of it for others" if bar.harm_time_ms else words
