"""The jar is fetched once, from the address that is set, and taken only as the one it should be."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_jobs.apply import kafka_jvm as module
from spark_jobs.apply.kafka_jvm import NAME, PATH, clients_jar
from spark_jobs.errors import BadInputError
from spark_jobs.settings import KafkaAdminSettings

JAR = b"not a jar, but known by its checksum"


@dataclass
class Repository:
    """A Maven repository on loopback: what it answers, and what it was asked."""

    port: int = 0
    answers: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def url(self, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.port}"


@contextmanager
def serving() -> Iterator[Repository]:
    repository = Repository()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.asked.append((self.path, self.headers["Authorization"]))
            body = repository.answers.get(self.path)
            moved = repository.moved.get(self.path)
            self.send_response(302 if moved else 404 if body is None else 200)
            if moved:
                self.send_header("Location", moved)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        repository.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield repository
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    monkeypatch.setattr(module, "SHA512", hashlib.sha512(JAR).hexdigest())
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as found:
        found.answers[f"/maven/{PATH}"] = JAR
        yield found


def settings(url: str, cache: Path) -> KafkaAdminSettings:
    return KafkaAdminSettings(maven_url=url, cache=cache)


def test_it_is_fetched_once_and_kept(repository: Repository, tmp_path: Path) -> None:
    wanted = settings(f"{repository.url()}/maven/", tmp_path / "new" / "cache")
    assert clients_jar(wanted) == tmp_path / "new" / "cache" / NAME
    assert clients_jar(wanted).read_bytes() == JAR
    assert repository.asked == [(f"/maven/{PATH}", None)]
    assert [path.name for path in (tmp_path / "new" / "cache").iterdir()] == [NAME]


def test_a_kept_file_that_is_another_one_is_fetched_again(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / NAME).write_bytes(JAR[:-1])
    assert clients_jar(settings(f"{repository.url()}/maven", tmp_path)).read_bytes() == JAR


def test_another_file_than_the_pinned_one_is_refused_and_not_kept(
    repository: Repository, tmp_path: Path
) -> None:
    repository.answers[f"/maven/{PATH}"] = JAR + b"!"
    with pytest.raises(BadInputError, match=r"is not the kafka-clients-.*: SHA-512 \w+, expected"):
        clients_jar(settings(f"{repository.url()}/maven", tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_address_without_the_jar_is_named_and_so_is_the_way_out(
    repository: Repository, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match="cannot be fetched") as caught:
        clients_jar(settings(f"{repository.url('joe:pa%2Fss@')}/other", tmp_path))
    message = str(caught.value)
    assert f"http://127.0.0.1:{repository.port}/other/{PATH}" in message
    assert "Not Found" in message
    assert "QUOTA_AUDIT_KAFKA_CLIENTS_JAR" in message
    assert "pa%2Fss" not in message


def test_a_server_that_nobody_runs_is_named(tmp_path: Path) -> None:
    with serving() as gone:
        url = gone.url()
    with pytest.raises(BadInputError, match="Connection refused"):
        clients_jar(settings(url, tmp_path))


def test_a_login_in_the_address_reaches_that_server_and_no_other(
    repository: Repository, tmp_path: Path
) -> None:
    with serving() as elsewhere:
        elsewhere.answers["/jar"] = JAR
        repository.moved[f"/maven/{PATH}"] = f"{elsewhere.url()}/jar"
        clients_jar(settings(f"{repository.url('joe:pa%2Fss@')}/maven", tmp_path))
        expected = f"Basic {base64.b64encode(b'joe:pa/ss').decode()}"
        assert repository.asked == [(f"/maven/{PATH}", expected)]
        assert elsewhere.asked == [("/jar", None)]


@pytest.mark.parametrize("url", ["ftp://x/y", "/etc", "file:///etc", "https://joe:secret@[x"])
def test_only_web_addresses_are_taken_and_none_is_shown(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="expected an address as https://host/path") as caught:
        clients_jar(settings(url, tmp_path))
    assert "secret" not in str(caught.value)


def test_a_copy_of_ones_own_is_taken_where_it_is_the_pinned_one(
    repository: Repository, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.jar"
    copy.write_bytes(JAR)
    assert clients_jar(KafkaAdminSettings(clients_jar=copy, cache=tmp_path / "cache")) == copy
    assert repository.asked == []
    copy.write_bytes(b"")
    with pytest.raises(BadInputError, match=r"CLIENTS_JAR: .*copy.jar is not the kafka-clients-"):
        clients_jar(KafkaAdminSettings(clients_jar=copy))
    with pytest.raises(BadInputError, match=r"CLIENTS_JAR: .*missing.jar cannot be read"):
        clients_jar(KafkaAdminSettings(clients_jar=tmp_path / "missing.jar"))


def test_it_is_kept_in_the_users_cache_folder(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    wanted = KafkaAdminSettings(maven_url=f"{repository.url()}/maven")
    assert clients_jar(wanted) == tmp_path / "quota-audit" / NAME
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert clients_jar(wanted) == tmp_path / "home" / ".cache" / "quota-audit" / NAME
