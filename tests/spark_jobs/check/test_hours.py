from __future__ import annotations

from collections import Counter

from spark_jobs.check.hours import hours_of_brokers
from spark_jobs.check.looked_at import FileLook, Looked
from spark_jobs.warehouse.days import HOUR_MS


def look(
    broker_id: int | None, *hours: int, whole: bool = True, reaches_end: bool = True
) -> FileLook:
    found = FileLook(f"{broker_id}-{hours}", broker_id, 1, None, is_packed=False)
    found.hours, found.is_whole, found.reaches_end = Counter(hours), whole, reaches_end
    found.first_ms, found.last_ms = min(hours) * HOUR_MS, max(hours) * HOUR_MS
    return found


def test_an_hour_that_another_broker_has_is_missing() -> None:
    hours = hours_of_brokers(Looked((look(1, 10, 11, 12), look(2, 10), look(2, 12))))
    assert hours[1].missing == ()
    assert hours[2].missing == ((11, 12),)


def test_hours_between_pieces_of_a_file_were_not_looked_at_and_are_not_missing() -> None:
    hours = hours_of_brokers(Looked((look(1, 10, 14, 18, whole=False), look(2, *range(10, 19)))))
    assert hours[1].unread == {11, 12, 13, 15, 16, 17}
    assert hours[1].missing == ()


def test_a_packed_file_is_taken_to_reach_to_the_brokers_next_one() -> None:
    begun = [look(1, hour, whole=False, reaches_end=False) for hour in (10, 13)]
    hours = hours_of_brokers(Looked((*begun, look(2, 15))))
    assert (hours[1].unread, hours[1].missing) == ({11, 12, 14, 15}, ())


def test_hours_that_no_broker_has_are_missing_everywhere() -> None:
    hours = hours_of_brokers(Looked((look(1, 10), look(1, 12), look(2, 10), look(2, 12))))
    assert {h.missing for h in hours.values()} == {((11, 12),)}


def test_of_a_broker_with_files_passed_by_no_hour_is_missing() -> None:
    files = look(1, 10), look(1, 12), look(2, 10, 11, 12)
    hours = hours_of_brokers(Looked(files, passed_by=((1, 500),)))
    assert (hours[1].unread, hours[1].missing) == ({11}, ())


def test_without_requests_there_are_no_hours() -> None:
    assert hours_of_brokers(Looked((FileLook("f", 1, 0, None, is_packed=False),))) == {}
