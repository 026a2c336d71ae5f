from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import BadInputError
from tests.oracle.scenario import (
    QUOTA_TYPES,
    Busy,
    Cluster,
    Consume,
    Failover,
    Mutate,
    Pause,
    Produce,
    Quota,
    Restart,
    Scenario,
    Share,
    Topic,
    parse_scenario,
)

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))

LIVE = sorted((Path(__file__).parent / "scenarios" / "live").glob("*.txt"))

NAMES = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=12)
COUNTS = st.integers(1, 1_000_000)


def one_step(line: str) -> object:
    """Return the step of a line that may use the topic ``orders``."""
    return parse_scenario(f"0 topic orders 4 1\n{line}").steps[-1][1]


def test_a_topic_line_gives_partitions_and_replicas() -> None:
    assert one_step("250 topic ledger 2 3") == Topic(250, "ledger", partitions=2, replicas=3)


def test_a_produce_line_gives_every_field_by_position() -> None:
    step = one_step("4000 produce alice orders-app orders 1000 80.5 56000 all true")
    assert step == Produce(4000, "alice", "orders-app", "orders", 1000, 80.5, 56000, "all", True)


def test_a_consume_line_gives_every_field_by_position() -> None:
    assert one_step("5 consume - reader orders 900") == Consume(5, "-", "reader", "orders", 900)


def test_a_mutation_is_strict_unless_its_line_says_permissive() -> None:
    line = "5 mutate carol admin 2 3 0.5 9000 false"
    assert one_step(line) == Mutate(5, "carol", "admin", 2, 3, 0.5, 9000, False, "strict")
    permissive = one_step(f"{line} permissive")
    assert permissive == Mutate(5, "carol", "admin", 2, 3, 0.5, 9000, False, "permissive")


def test_a_quota_line_sets_several_types_of_one_entity_at_once() -> None:
    line = "600 quota user=<default>,client-id=app producer_byte_rate=10 request_percentage=0.5"
    entity = {"user": "<default>", "client-id": "app"}
    bounds: dict[str, float | None] = {"producer_byte_rate": 10.0, "request_percentage": 0.5}
    assert one_step(line) == Quota(600, entity, bounds)


def test_a_dash_as_value_removes_the_quota() -> None:
    step = one_step("1 quota client-id=app consumer_byte_rate=-")
    assert step == Quota(1, {"client-id": "app"}, {"consumer_byte_rate": None})


def test_without_a_cluster_line_node_1_is_broker_and_controller() -> None:
    assert parse_scenario("0 topic t 1 1").cluster == Cluster(0, "combined", {})


def test_a_cluster_line_gives_the_layout_and_settings_of_its_nodes() -> None:
    scenario = parse_scenario("0 cluster dedicated quota.window.num=5 a.b=x=y\n0 topic t 1 1")
    settings = {"quota.window.num": "5", "a.b": "x=y"}
    assert scenario.cluster == Cluster(0, "dedicated", settings)


def test_a_produce_line_may_end_with_the_size_of_its_largest_records() -> None:
    step = one_step("0 produce - app orders 100 80 900 0 false 4000")
    assert step == Produce(0, "-", "app", "orders", 100, 80, 900, "0", False, record_bytes_max=4000)


def test_a_produce_line_may_say_that_what_is_late_is_sent_at_once() -> None:
    step = one_step("0 produce - app orders 100 80 900 0 false 100 true")
    assert step == Produce(0, "-", "app", "orders", 100, 80, 900, "0", False, 100, True)


def test_what_happens_to_nodes_is_for_the_lab_and_in_order_of_time() -> None:
    of_lab = "900 failover\n20 restart 2\n30 pause 1 250\n10 busy 2 950"
    scenario = parse_scenario(f"0 cluster combined\n0 topic t 1 1\n{of_lab}")
    found = (Busy(10, 2, 950), Restart(20, 2), Pause(30, 1, 250), Failover(900))
    assert scenario.lab_steps == found
    assert scenario.lines == ("0 topic t 1 1",)
    assert scenario.end_ms == 960


def test_empty_lines_and_comments_say_nothing_but_stay_in_the_text() -> None:
    text = "# about it\n\n   0 topic   orders 4 1  \n"
    scenario = parse_scenario(text)
    assert scenario.text == text
    assert scenario.steps == (("0 topic   orders 4 1", Topic(0, "orders", 4, 1)),)


def test_the_load_ends_with_the_step_that_ends_last() -> None:
    text = "0 topic t 1 1\n10 consume - long t 500\n400 consume - short t 20\n450 topic u 1 1"
    assert parse_scenario(text).end_ms == 510


def test_users_are_those_that_authenticate_each_once() -> None:
    text = "0 topic t 1 1\n0 consume bob a t 9\n0 consume alice b t 9\n0 consume bob c t 9\n"
    assert parse_scenario(f"{text}0 consume - d t 9").users == ("alice", "bob")


def test_only_permissive_mutations_go_to_the_older_client() -> None:
    strict, permissive = ("0 mutate u a 1 1 1 9 false", "0 mutate u b 1 1 1 9 false permissive")
    scenario = parse_scenario(f"0 topic t 1 1\n{permissive}\n{strict}")
    assert scenario.lines == ("0 topic t 1 1", strict)
    assert scenario.permissive_lines == (permissive,)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0", "expected `<at ms> cluster|topic|quota"),
        ("0 fetch alice app orders", "expected `<at ms> cluster|topic|quota"),
        ("soon topic t 1 1", "Expected `int`"),
        ("-5 topic t 1 1", ">= 0"),
        ("0 topic t 0 1", ">= 1"),
        ("0 topic a/b 1 1", "matching regex"),
        ("0 topic t 1", "missing required field `replicas`"),
        ("0 topic t 1 1 1", "1 words too many"),
        ("0 produce a c nowhere 1 1 1 1 false", "no earlier line creates the topic 'nowhere'"),
        ("0 consume a c nowhere 1", "no earlier line creates the topic 'nowhere'"),
        ("0 produce a c orders 1 1 1 2 false", "Invalid enum value '2'"),
        ("0 produce a c orders 1 1 1 1 true", "needs acks all, not 1"),
        ("0 produce a c orders 1 0 1 1 false", "> 0"),
        ("0 produce a c orders 1 nan 1 1 false", "> 0"),
        ("0 produce a c orders 1 inf 1 1 false", "<= 100000"),
        ("0 mutate a c 1 1 1 1 false lenient", "Invalid enum value 'lenient'"),
        ("0 cluster dedicated", "not the first line"),
        ("5 cluster dedicated", "Invalid enum value 5"),
        ("0 cluster", "Invalid enum value ''"),
        ("0 cluster round", "Invalid enum value 'round'"),
        ("0 cluster combined quota.window.num", "found 'quota.window.num', expected a setting"),
        ("0 restart one", "Expected `int`"),
        ("0 restart", "missing required field `node_id`"),
        ("0 failover 1", "1 words too many"),
        ("0 pause 1", "missing required field `duration_ms`"),
        ("0 pause 1 600001", "<= 600000"),
        ("0 pause 0 100", ">= 1"),
        ("0 busy 9 100", "<= 8"),
        ("0 busy 2 600001", "<= 600000"),
        ("0 produce a c orders 9 1 1 1 false 8", "records of 9 to 8 bytes: none"),
        ("0 quota user=a", "expected an entity and at least one"),
        ("0 quota group=a producer_byte_rate=1", "found 'group=a'"),
        ("0 quota user= producer_byte_rate=1", "found 'user='"),
        ("0 quota user=a,user=b producer_byte_rate=1", "user is given twice"),
        ("0 quota user=a byte_rate=1", "found 'byte_rate=1'"),
        ("0 quota user=a producer_byte_rate=fast", "could not convert"),
        ("0 quota user=a producer_byte_rate=0", "must be a number above 0"),
        ("0 quota user=a producer_byte_rate=nan", "must be a number above 0"),
        ("0 quota user=a producer_byte_rate=inf", "must be a number above 0"),
    ],
)
def test_a_wrong_line_is_named_with_its_number_and_what_is_wrong(line: str, reason: str) -> None:
    with pytest.raises(BadInputError) as raised:
        parse_scenario(f"# a comment counts as a line\n0 topic orders 4 1\n{line}\n")
    assert f"scenario line 3, {line!r}: " in str(raised.value)
    assert reason in str(raised.value)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
def test_a_scenario_without_a_step_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="the scenario has no step"):
        parse_scenario(text)


@given(
    step=st.builds(
        Produce,
        at_ms=st.integers(0, 10**6),
        user=NAMES,
        client_id=NAMES,
        topic=st.just("orders"),
        record_bytes=COUNTS,
        records_per_second=st.floats(0.001, 100_000),
        duration_ms=COUNTS,
        acks=st.just("all"),
        is_idempotent=st.booleans(),
    )
)
def test_a_step_written_as_a_line_reads_back_as_itself(step: Produce) -> None:
    line = (
        f"{step.at_ms} produce {step.user} {step.client_id} {step.topic} {step.record_bytes} "
        f"{step.records_per_second!r} {step.duration_ms} {step.acks} {step.is_idempotent}"
    )
    assert one_step(line) == step


@given(
    bounds=st.dictionaries(
        st.sampled_from(QUOTA_TYPES),
        st.none() | st.floats(0, 1e12, exclude_min=True),
        min_size=1,
    )
)
def test_quotas_written_as_a_line_read_back_as_themselves(bounds: dict[str, float | None]) -> None:
    words = " ".join(f"{key}={'-' if value is None else value}" for key, value in bounds.items())
    assert one_step(f"7 quota user=a {words}") == Quota(7, {"user": "a"}, bounds)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
class TestAScenarioThatIsShipped:
    def test_sets_every_quota_type(self, path: Path) -> None:
        assert {key for step in _quotas(_read(path)) for key in step.bounds} == set(QUOTA_TYPES)

    def test_sets_quotas_of_users_of_client_ids_of_both_and_of_defaults(self, path: Path) -> None:
        entities = [step.entity for step in _quotas(_read(path))]
        kinds = {tuple(sorted(entity)) for entity in entities}
        assert kinds == {("user",), ("client-id",), ("client-id", "user")}
        assert any("<default>" in entity.values() for entity in entities)

    def test_changes_and_removes_quotas_under_load(self, path: Path) -> None:
        scenario = _read(path)
        load = [step for _, step in scenario.steps if isinstance(step, Produce)]
        late = [
            step for step in _quotas(scenario) if step.at_ms > min(load, key=_at_ms).at_ms + 5000
        ]
        values = [value for step in late for value in step.bounds.values()]
        assert any(value is not None for value in values)
        assert any(value is None for value in values)

    def test_drives_all_acks_and_both_mutation_modes(self, path: Path) -> None:
        steps = [step for _, step in _read(path).steps]
        assert {step.acks for step in steps if isinstance(step, Produce)} == {"0", "1", "all"}
        modes = {step.mode for step in steps if isinstance(step, Mutate)}
        assert modes == {"strict", "permissive"}

    def test_is_over_after_about_a_minute(self, path: Path) -> None:
        assert _read(path).end_ms <= 60_000


@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_a_scenario_of_the_live_tests_says_its_layout_and_is_short(path: Path) -> None:
    scenario = _read(path)
    assert isinstance(scenario.steps[0][1], Cluster)
    assert scenario.end_ms <= 65_000


def _read(path: Path) -> Scenario:
    return parse_scenario(path.read_text())


def _at_ms(step: Produce) -> int:
    return step.at_ms


def _quotas(scenario: Scenario) -> list[Quota]:
    return [step for _, step in scenario.steps if isinstance(step, Quota)]


def test_a_share_group_reads_a_topic_that_was_created() -> None:
    steps = parse_scenario("0 topic orders 4 1\n5 share bob sharers orders 900").steps
    assert steps[1][1] == Share(5, "bob", "sharers", "orders", 900)
    with pytest.raises(BadInputError, match="no earlier line creates the topic 'clicks'"):
        parse_scenario("0 topic orders 4 1\n5 share bob sharers clicks 900")
