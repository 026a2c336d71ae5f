from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.apply.client_properties import (
    JAAS,
    ClientProperties,
    check_keys,
    check_no_providers,
    read_client_properties,
    secrets_of,
    without_secrets,
)
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.java_properties import read_properties

KNOWN = {"security.protocol", "sasl.mechanism", JAAS, "ssl.truststore.password"}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def client(tmp_path: Path, text: str) -> ClientProperties:
    path = tmp_path / "admin.properties"
    path.write_text(text, "latin-1")
    return read_client_properties(path)


def secrets(tmp_path: Path, text: str) -> tuple[str, ...]:
    return secrets_of(client(tmp_path, text), lambda key: key not in {"security.protocol", "user"})


def test_the_file_is_read_as_kafkas_tools_read_it(tmp_path: Path) -> None:
    found = client(tmp_path, "security.protocol : SASL_SSL\nsasl.\\\n  mechanism=PLÄIN\n")
    values = {key: one.value for key, one in found.properties.items()}
    assert values == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLÄIN"}


def test_without_a_file_there_are_no_properties() -> None:
    assert read_client_properties(None).properties == {}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(BadInputError, match=f"--command-config: {path} cannot be read"):
            read_client_properties(path)


def test_numbers_are_those_that_are_there(tmp_path: Path) -> None:
    found = client(tmp_path, "a=15\nb=soon\n")
    assert [found.number(key) for key in "abc"] == [15, None, None]


def test_a_key_that_is_none_of_kafkas_is_refused_with_the_one_meant(tmp_path: Path) -> None:
    found = client(tmp_path, "# comment\nsasl.jaas.confg=password=secret\n")
    with pytest.raises(
        BadInputError, match=r"line 2: 'sasl.jaas.confg' .* Is sasl.jaas.config"
    ) as e:
        check_keys(found, KNOWN, [])
    assert "secret" not in str(e.value)


@pytest.mark.parametrize(
    "line", ["hunter2", "correct.horse.battery", "s3cr3t!=x", "Pa55=word", "eyJhbGciOi.eyJzdWIi=="]
)
def test_what_does_not_read_like_a_key_is_never_quoted(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadInputError, match=r"line 1: a text of \d+ characters is no") as refused:
        check_keys(client(tmp_path, line), KNOWN, [])
    for part in line.split("="):
        assert not part or len(part) < 3 or part not in str(refused.value)


@given(st.text("abcXYZ019.-_!", min_size=8))
def test_a_file_that_holds_a_secret_alone_does_not_give_it_away(secret: str) -> None:
    found = ClientProperties(Path("/f"), read_properties(secret, "/f"))
    said = ""
    try:
        check_keys(found, KNOWN, [])
    except BadInputError as refused:
        said = str(refused)
    assert secret not in said


@pytest.mark.parametrize(
    "text",
    [
        "config.providers=file\n",
        "config.providers.file.class=X\n",
        "ssl.truststore.password=${file:/run/secrets/kafka:password}\n",
        "ssl.truststore.password=${env:PASSWORD}\n",
    ],
)
def test_what_a_config_provider_would_read_is_refused_unless_allowed(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(BadInputError, match=r"QUOTA_AUDIT_KAFKA_CONFIG_PROVIDERS=true") as refused:
        check_no_providers(client(tmp_path, text))
    assert "secrets" not in str(refused.value)
    check_no_providers(client(tmp_path, "ssl.truststore.password=a${b}c\n"))


def test_keys_of_ones_own_and_of_config_providers_are_allowed(tmp_path: Path) -> None:
    found = client(tmp_path, "config.providers=file\nconfig.providers.file.class=X\nours=1\n")
    check_keys(found, KNOWN, ["ours"])
    with pytest.raises(BadInputError, match="line 3: a text of 4 characters is no setting"):
        check_keys(found, KNOWN, [])


def test_a_value_that_is_a_secret_is_hidden_wherever_it_stands(tmp_path: Path) -> None:
    hidden = secrets(tmp_path, "security.protocol=SSL\nssl.truststore.password=changeit\n")
    assert hidden == ("changeit",)
    assert without_secrets("SSL, changeit, 'changeit!'", hidden) == "SSL, [hidden], '[hidden]!'"


@pytest.mark.parametrize(
    "login",
    [
        f'{MODULE} required username="alice" password="s3cr3t==";',
        f'{MODULE} required username="alice" password="s3cr3t==',
        f"{MODULE} required username=alice password='s3cr3t==';",
        f'{MODULE} required password=s3cr3t== username="alice"',
        f'{MODULE} "s3cr3t==" required;',
        f'{MODULE} required username="$ConnectionString" password="Endpoint=x;Key=s3cr3t==";',
    ],
)
def test_a_login_hides_its_password_even_where_it_is_malformed(tmp_path: Path, login: str) -> None:
    hidden = secrets(tmp_path, f"{JAAS}={login}\n")
    for text in (f"Value of s3cr3t== is odd: {login}", login.replace('"', "'")):
        assert "s3cr3t" not in without_secrets(text, hidden)
    kept = f"No module {MODULE} required for option password or username, true"
    assert without_secrets(kept, hidden) == kept


def test_a_login_of_one_listener_hides_its_password_too(tmp_path: Path) -> None:
    name = f"listener.name.x.{JAAS}"
    assert "s3cr3t" in secrets(tmp_path, f'{name}={MODULE} required password="s3cr3t";\n')


@given(
    st.lists(st.text(min_size=1), min_size=1, max_size=5),
    st.lists(st.text(alphabet="abc [hide]"), max_size=4),
)
def test_no_secret_outlives_hiding_but_in_the_word_for_it(
    words: list[str], between: list[str]
) -> None:
    hidden = tuple(sorted(words, key=len, reverse=True))
    text = "".join(part + words[i % len(words)] for i, part in enumerate(between))
    for piece in without_secrets(text, hidden).split("[hidden]"):
        assert not any(word in piece for word in words)


def test_a_client_does_not_show_its_properties_by_accident(tmp_path: Path) -> None:
    assert "changeit" not in repr(client(tmp_path, "ssl.truststore.password=changeit\n"))
