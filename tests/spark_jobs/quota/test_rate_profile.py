from __future__ import annotations

import pytest

from spark_jobs.quota.rate_profile import RateProfile, profile_of_version


@pytest.mark.parametrize(
    ("version", "profile"),
    [
        ("0.9.0.1", RateProfile.RATE_0_9),
        ("0.11.0", RateProfile.RATE_0_9),
        ("2.8.2", RateProfile.RATE_0_9),
        ("3.2.3", RateProfile.RATE_0_9),
        ("3.3.0", RateProfile.RATE_3_3),
        ("3.7.2", RateProfile.RATE_3_3),
        ("3.8.0", RateProfile.RATE_3_8),
        ("3.10.0", RateProfile.RATE_3_8),
        (" 4.1.0\n", RateProfile.RATE_3_8),
        ("4.0.0-rc1", RateProfile.RATE_3_8),
        ("3.7.2-SNAPSHOT", RateProfile.RATE_3_3),
        ("3.7.0.redhat-00007", RateProfile.RATE_3_3),
    ],
)
def test_a_version_follows_the_profile_of_the_last_change_before_it(
    version: str, profile: RateProfile
) -> None:
    assert profile_of_version(version) is profile


@pytest.mark.parametrize(
    "version", ["", "latest", "4", "v3.7.2", "7.4.0-ccs", "7.4.0-1-ce", "3.7.2x"]
)
def test_what_is_no_apache_kafka_version_is_refused_by_name(version: str) -> None:
    with pytest.raises(ValueError, match="is not an Apache Kafka version like") as refused:
        profile_of_version(version)
    assert repr(version) in str(refused.value)


def test_versions_before_client_quotas_are_refused() -> None:
    with pytest.raises(ValueError, match="no client quotas"):
        profile_of_version("0.8.2")


def test_only_the_newest_profile_keeps_one_slot_more_than_samples() -> None:
    assert [profile.slots(11) for profile in RateProfile] == [11, 11, 12]
