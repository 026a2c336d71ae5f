"""A setting of the environment that cannot be used is named, with what was found (exit code 2)."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from spark_jobs.cli.app import main
from spark_jobs.cli.ending import refused_settings
from spark_jobs.settings import AlertSettings


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "QUOTA_AUDIT_RECOMMEND_HEADROOM",
            "0.5",
            "error: The setting QUOTA_AUDIT_RECOMMEND_HEADROOM is '0.5': "
            "Input should be greater than 1.",
        ),
        (
            "QUOTA_AUDIT_RECOMMEND_BROKER_CAPACITY",
            "much",
            'error: error parsing value for field "broker_capacity" from source '
            '"EnvSettingsSource": lists and tables are written as JSON.',
        ),
    ],
)
def test_it_ends_the_command_with_a_sentence(
    name: str,
    value: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["quota-audit", "recommend", "-w", "x", "--day", "2026-11-21"])
    with pytest.raises(SystemExit, match=r"^2$"):
        main()
    assert capsys.readouterr().err == f"{sentence}\n"


def test_what_is_no_setting_is_not_called_one() -> None:
    class Other(BaseModel):
        width: int

    with pytest.raises(ValidationError) as caught:
        Other(width="wide")  # type: ignore[arg-type]
    assert refused_settings(caught.value) is None


def test_an_address_with_a_token_where_an_id_belongs_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_ALERT_SLACK_CONNECTION", "https://hooks.example.com/T0/token")
    with pytest.raises(ValidationError) as caught:
        AlertSettings()
    told = refused_settings(caught.value)
    assert told is not None
    assert told.startswith("The setting QUOTA_AUDIT_ALERT_SLACK_CONNECTION does not hold: ")
    assert "airflow connections add" in told
    # Airflow shows the error itself where a DAG cannot be imported.
    assert "token" not in told + str(caught.value)
