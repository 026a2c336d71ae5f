"""Frozen settings: options that steps share, with their defaults and environment names."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.storage import CLUSTER_PATTERN, storage_path

# A host may be an IPv6 address in brackets.
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):\d{1,5}"
SERVERS_PATTERN = rf"^({_SERVER}(,{_SERVER})*)?$"
# The target that QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS is of.
DEFAULT_TARGET = "default"


# A task does not run in the folder the setting was written in.
AbsolutePath = Annotated[Path | None, AfterValidator(lambda path: path and path.absolute())]


class Settings(BaseSettings):
    """What all settings are like: read from the environment, and never changed."""

    model_config = SettingsConfigDict(frozen=True)


class SparkSettings(Settings, env_prefix="QUOTA_AUDIT_SPARK_"):
    """How a step starts Spark; read from ``QUOTA_AUDIT_SPARK_*``."""

    # Spark's master URL, as spark://host:7077; "" = what spark-submit was given, else local[*].
    master: str = ""
    # Memory of the driver's JVM, which is all there is with a local master.
    driver_memory: str = "2g"
    # Options of the JVM; for logs of a few MB -XX:TieredStopAtLevel=1 saves a fifth of the time.
    driver_java_options: str = ""
    # Into how many parts Spark cuts sorted tables: two or three per core.
    shuffle_partitions: int = Field(default=8, ge=1)


class IngestSettings(Settings, env_prefix="QUOTA_AUDIT_INGEST_"):
    """What an ingest refuses to read; read from ``QUOTA_AUDIT_INGEST_*``."""

    # Requests more than so many days after the clock go to quarantine; no later day is the newest.
    future_days_max: int = Field(default=1, ge=0, le=36_500)
    # A .gz or .zst that unpacks to more than 256 MB and to so many times its size is refused; a
    # line that is not empty counts as 128 bytes or more.
    unpacked_ratio_max: int = Field(default=200, ge=1)

    def latest_moment(self, now: dt.datetime | None = None) -> dt.datetime:
        """Return the latest moment of a right log, seen from ``now`` (None: the clock)."""
        return (now or dt.datetime.now(dt.UTC)) + dt.timedelta(days=self.future_days_max)

    def latest_day(self, now: dt.datetime | None = None) -> dt.date:
        """Return the UTC day of :meth:`latest_moment`."""
        return self.latest_moment(now).astimezone(dt.UTC).date()


class AnonymizeSettings(Settings, env_prefix="QUOTA_AUDIT_ANONYMIZE_"):
    """The secret of an anonymized copy; read from ``QUOTA_AUDIT_ANONYMIZE_*``."""

    # Copies made with the same key have the same pseudonyms; --key-file wins. None = a random key.
    key: SecretStr | None = None
    # Processes that copy, a file each; 0 = one per core.
    processes: int = Field(default=0, ge=0)


class JudgeSettings(Settings, env_prefix="QUOTA_AUDIT_JUDGE_"):
    """When a difference between log and replay is a fault; read from ``QUOTA_AUDIT_JUDGE_*``."""

    # Throttles that differ by no more than this agree.
    tolerance_ms: int = Field(default=5, ge=0)
    # After a first quota or the log's start a sensor's past is unknown for so many seconds, and for
    # as long as the broker's windows last.
    warm_up_windows: int = Field(default=13, ge=0)
    # How long a quota change may take to reach every broker.
    change_ms: int = Field(default=1000, ge=0)
    # So many wrong decisions of a sensor are looked at for one cause.
    finding_min_decisions: int = Field(default=10, ge=1)


class RecommendSettings(Settings, env_prefix="QUOTA_AUDIT_RECOMMEND_"):
    """What a recommendation needs and may do; read from ``QUOTA_AUDIT_RECOMMEND_*`` or a file."""

    # Under so many requests there is "not enough data", never a number.
    min_requests: int = Field(default=200, ge=1)
    # The same for quotas of controller mutations.
    min_mutations: int = Field(default=20, ge=1)
    # Seconds with traffic, for mutations from the first to the last.
    min_seconds: int = Field(default=30, ge=1)
    # A day with less throttling than this is left alone.
    min_throttle_ms: int = Field(default=1000, ge=0)
    # A value is proposed of what was asked for times this.
    headroom: float = Field(default=1.2, gt=1.0)
    # From this share of the value on, the reason to keep it says that it is near the limit.
    near_limit: float = Field(default=0.8, gt=0.0, le=1.0)
    # What never asked for more than this share of its value is lowered.
    far_below: float = Field(default=0.25, gt=0.0, lt=1.0)
    # A change by this share of the value or less is not proposed.
    min_change: float = Field(default=0.1, ge=0.0)
    # How many days of evidence are looked at.
    history_days: int = Field(default=28, ge=1)
    # Days on which traffic was seen, before a value is lowered.
    lower_min_days: int = Field(default=1, ge=1)
    # Days without traffic, before a value is reclaimed.
    reclaim_min_days: int = Field(default=7, ge=1)
    # The largest demand of this many days is what a value must hold: a week has its shape.
    season_days: int = Field(default=7, ge=1)
    # A day above all others by more than this, and never again, is a burst and no demand.
    burst_ratio: float = Field(default=2.0, gt=1.0)
    # With this many days or fewer nothing is called a burst.
    burst_min_days: int = Field(default=3, ge=2)
    # A demand that rises on this share of all pairs of days is extrapolated over the horizon.
    rising_share: float = Field(default=0.8, gt=0.5, le=1.0)
    # With fewer days than this nothing is called rising.
    rising_min_days: int = Field(default=5, ge=3)
    # How far ahead a rising demand is extrapolated.
    horizon_days: int = Field(default=7, ge=0)
    # Of what it should have done on days it was not computed from, a proposal must keep this share.
    min_kept_share: float = Field(default=0.5, ge=0.0, le=1.0)
    # A raise keeps its promise where at most this share of the throttling is left.
    left_share_max: float = Field(default=0.15, ge=0.0, lt=1.0)
    # Propose nothing but raises.
    raise_only: bool = False
    # Where more followers of a default than this need more, the default is raised instead.
    overrides_max: int = Field(default=10, ge=0)
    # By quota type: what explicit values of one broker may add up to.
    broker_capacity: dict[str, float] = Field(default_factory=dict)
    # Users and client-ids that are nobody's to limit; whole names, in any case.
    internal_principals: tuple[str, ...] = (
        r"__.*",
        r".*cruise-?control.*",
        r".*mirror-?maker.*",
        r".*strimzi.*operator.*",
    )
    # Who makes at least this share of what a bucket shares is parted from the others in it.
    split_share: float = Field(default=0.8, gt=0.5, le=1.0)
    # Propose one value for a user in place of those of its client-ids.
    merge: bool = True
    # Single values of a user's client-ids that are worth one.
    merge_min_values: int = Field(default=3, ge=2)
    # So many times the demand of the other brokers makes a broker one that leads too much.
    skew_ratio: float = Field(default=3.0, gt=1.0)
    # With more requests of throttled clients than this, a forecast keeps them as they were logged.
    closed_loop_requests_max: int = Field(default=500_000, ge=0)
    # One step raises to this many times the value at most.
    max_raise: float = Field(default=4.0, gt=1.0)
    # One step lowers to this share of the value at most.
    max_lower: float = Field(default=0.5, gt=0.0, lt=1.0)


class RetentionSettings(Settings, env_prefix="QUOTA_AUDIT_RETENTION_"):
    """How long large tables are kept; read from ``QUOTA_AUDIT_RETENTION_*``."""

    # By table: how many days `quota-audit prune` keeps, counted from the newest one.
    days: dict[str, int] = Field(
        default_factory=lambda: {"requests": 30, "quarantine": 90, "rates": 90, "decisions": 90}
    )


class ReportSettings(Settings, env_prefix="QUOTA_AUDIT_REPORT_"):
    """How much a report shows; read from ``QUOTA_AUDIT_REPORT_*``."""

    # Charts of one page: it stays readable and under 3 MB, and says how much it leaves out.
    pictures_max: int = Field(default=12, ge=0, le=60)
    # Rows of one table of the page.
    table_rows_max: int = Field(default=200, ge=1, le=1000)


class FollowSettings(Settings, env_prefix="QUOTA_AUDIT_FOLLOW_"):
    """How findings are followed from day to day; read from ``QUOTA_AUDIT_FOLLOW_*``."""

    # How many days of findings are looked back at.
    history_days: int = Field(default=90, ge=1)
    # So many times the wrong decisions of when it was last told, and a problem is worse.
    worse_ratio: float = Field(default=1.5, gt=1.0)
    # With fewer wrong decisions more than this it is not.
    worse_decisions: int = Field(default=10, ge=1)
    # YAML file of findings that are known; None = acknowledged.yaml in the warehouse.
    acknowledged: AbsolutePath = None
    # So many days after its own a finding may be acknowledged at most; what says longer ends then.
    acknowledged_days_max: int = Field(default=90, ge=1, le=3650)
    # YAML file that says whose a client is; None = owners.yaml in the warehouse, if it is there.
    owners: AbsolutePath = None


class CrosscheckSettings(Settings, env_prefix="QUOTA_AUDIT_CROSSCHECK_"):
    """When a broker's metric disagrees with its log; read from ``QUOTA_AUDIT_CROSSCHECK_*``."""

    # JSON: label instance of a metric → broker id, where no other label tells it.
    instances: dict[str, int] = Field(default_factory=dict)
    # Values that differ by this share agree.
    tolerance: float = Field(default=0.05, ge=0.0)
    # The same in ms, for throttle times.
    throttle_slack_ms: float = Field(default=5.0, ge=0.0)
    # The broker was read so long before or after the sample's time.
    around_ms: int = Field(default=2000, ge=0)
    # Samples of /query_range, on whole seconds, may be older by this.
    scrape_interval_ms: int = Field(default=60_000, ge=0)
    # So many samples in a row that disagree are a finding.
    min_samples: int = Field(default=3, ge=1)
    # As many that are not in a row are one from this share of those compared on.
    min_share: float = Field(default=0.02, gt=0.0, le=1.0)
    # The brokers' metrics.num.samples, of which throttle-time is the mean.
    throttle_samples: int = Field(default=2, ge=1)
    # The brokers' metrics.sample.window.ms.
    throttle_window_ms: int = Field(default=30_000, ge=1)


class ValidateSettings(Settings, env_prefix="QUOTA_AUDIT_VALIDATE_"):
    """How tables are validated; read from ``QUOTA_AUDIT_VALIDATE_*``."""

    # Up to this many rows a table is validated in memory, above it by Spark.
    in_memory_rows_max: int = Field(default=2_000_000, ge=0)


class DailyAuditSettings(Settings, env_prefix="QUOTA_AUDIT_"):
    """What the daily DAG audits unless a run says otherwise; read from ``QUOTA_AUDIT_*``."""

    # Folder of the archived logs, or s3://bucket/key.
    archive: Path = Field(default=Path("examples/capture"), validate_default=True)
    # Folder of the tables and reports, or s3://bucket/key.
    warehouse: Path = Field(default=Path("artifacts/warehouse"), validate_default=True)
    # Other places at or below which a form may name an archive, a JSON list.
    archives: tuple[str, ...] = ()
    # The same for a form's warehouse.
    warehouses: tuple[str, ...] = ()
    # As in the archive's folder cluster=<name>; any name where it has none.
    cluster: str = "default"
    # Time zone of the log lines, a name of the IANA database.
    timezone: str = "UTC"
    # Version of the brokers; "" = kafka-version.txt of the archive, else detected.
    broker_version: str = ""
    # What runs a step, as a JSON list; empty = this interpreter with -m spark_jobs.cli. Set it
    # where Airflow and the jobs live in different environments.
    launcher: tuple[str, ...] = ()

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        if name not in available_timezones():
            raise ValueError("not a time zone of the IANA database, as Europe/Berlin")
        return name

    @field_validator("archive", "warehouse", mode="wrap")
    @classmethod
    def _absolute(cls, value: Any, is_path: ValidatorFunctionWrapHandler) -> Path:
        if isinstance(value, str) and "://" in value:
            return _in_bucket(value)
        path: Path = is_path(value)
        # A task does not run in the folder the setting was written in.
        return path.absolute()

    @field_validator("archives", "warehouses")
    @classmethod
    def _all_absolute(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(_in_bucket(p) if "://" in p else Path(p).absolute()) for p in places)


# What is set in the wrong place may be an address with a token in it: it is not repeated.
class AlertSettings(Settings, env_prefix="QUOTA_AUDIT_ALERT_", hide_input_in_errors=True):
    """Whom the daily DAG tells of what, and how; read from ``QUOTA_AUDIT_ALERT_*``."""

    # Addresses to mail to; empty = no mail.
    mail_to: tuple[str, ...] = ()
    # Who the mail is from; "" = the connection's from_email.
    mail_from: str = ""
    # Connection of the mail server.
    mail_connection: str = "smtp_default"
    # Connection of Slack's incoming webhook; "" = nothing to Slack.
    slack_connection: str = ""
    # Connection of a web server that takes JSON by POST; "" = nothing to it.
    webhook_connection: str = ""
    # How bad what is new or worse must be. A failed run is told in any case.
    level: Literal["critical", "warning"] = "critical"
    # Where people reach Airflow, as https://airflow.example.com; "" = messages have no link.
    base_url: str = Field(default="", pattern=r"^(https?://[^\s\"<>]+)?$")

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the channels that are set, of mail, slack and webhook."""
        chosen = {
            "mail": self.mail_to,
            "slack": self.slack_connection,
            "webhook": self.webhook_connection,
        }
        return tuple(name for name, value in chosen.items() if value)

    @field_validator("mail_connection", "slack_connection", "webhook_connection")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if "://" in value:
            raise ValueError(
                "it should be the id of a connection of Airflow, as team_hook; the address and its "
                "secrets belong in that connection (airflow connections add)"
            )
        return value


class KafkaAdminSettings(Settings, env_prefix="QUOTA_AUDIT_KAFKA_"):
    """How quotas are read and altered in a cluster; read from ``QUOTA_AUDIT_KAFKA_*``."""

    # A copy of the kafka-clients jar that this version pins; None = fetched once, then kept.
    clients_jar: Path | None = None
    # Maven Central, or a mirror of it.
    maven_url: str = "https://repo.maven.apache.org/maven2"
    # Where the jar is kept; None = quota-audit in the user's cache folder.
    cache: Path | None = None
    # Where the client properties have none: what a call may take, its repetitions included.
    default_api_timeout_ms: int = Field(default=30_000, ge=1)
    # The same for one request.
    request_timeout_ms: int = Field(default=10_000, ge=1)
    # How long a broker may take to show a change that the controller has accepted.
    read_back_ms: int = Field(default=10_000, ge=0)
    # Jars of login modules and SSL engines of one's own.
    class_path: str = ""
    # Keys of client properties that no Kafka client knows, a JSON list.
    extra_keys: tuple[str, ...] = ()
    # On: values that Kafka's config providers read (${file:…}) are used; messages may show them.
    config_providers: bool = False
    # Options of the JVM, as -Djava.security.krb5.conf=FILE. Everybody on the machine sees them.
    java_options: str = ""


class KafkaTarget(BaseModel):
    """A Kafka cluster whose quotas may be changed, and how it is reached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str = Field(min_length=1, pattern=SERVERS_PATTERN)
    command_config: AbsolutePath = None


# What is set in the wrong place may be a password: it is not repeated.
class ApprovalSettings(Settings, env_prefix="QUOTA_AUDIT_KAFKA_", hide_input_in_errors=True):
    """Where, and how, the DAG applies what a person approves; read from ``QUOTA_AUDIT_KAFKA_*``."""

    # Brokers of the target "default", host:port,…; "" = there is none of that name.
    bootstrap_servers: str = Field(default="", pattern=SERVERS_PATTERN)
    # Its Kafka client properties file; secrets stand there and nowhere else.
    command_config: AbsolutePath = None
    # More targets by name, as {"west": {"bootstrap_servers": "…", "command_config": "FILE"}}.
    targets: dict[str, KafkaTarget] = Field(default_factory=dict)
    # On: what is approved is checked against the cluster, and nothing is changed.
    dry_run: bool = True
    # Off: what would remove a value is not offered.
    allow_delete: bool = False
    # On: who approves must be somebody else than who started the run.
    two_persons: bool = False
    # After so long without an answer nothing is applied.
    answer_within_days: float = Field(default=7.0, gt=0.0)

    @field_validator("targets")
    @classmethod
    def _named(cls, targets: dict[str, KafkaTarget]) -> dict[str, KafkaTarget]:
        if any(name == DEFAULT_TARGET or not re.search(CLUSTER_PATTERN, name) for name in targets):
            raise ValueError(
                "the name of a target has the characters A-Z, a-z, 0-9, '.', '_' and '-', and is "
                f"not {DEFAULT_TARGET}, which QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS sets"
            )
        return targets

    def every_target(self) -> dict[str, KafkaTarget]:
        """Return all targets by name."""
        if not self.bootstrap_servers:
            return self.targets
        config = self.command_config
        own = KafkaTarget(bootstrap_servers=self.bootstrap_servers, command_config=config)
        return {DEFAULT_TARGET: own, **self.targets}


class ServeSettings(Settings, env_prefix="QUOTA_AUDIT_SERVE_"):
    """Where and for whom ``make serve`` shows Airflow; read from ``QUOTA_AUDIT_SERVE_*``."""

    # Port of Airflow's pages; --port wins.
    port: int = Field(default=8080, ge=1, le=65535)
    # 0.0.0.0 only in a container, whose port is then published on the host's 127.0.0.1.
    host: Literal["127.0.0.1", "0.0.0.0"] = "127.0.0.1"
    # The one user.
    user: str = Field(default="admin", pattern=r"^[A-Za-z0-9._-]+$")
    # None = one is made up and kept in the home's passwords file.
    password: SecretStr | None = None
    # How long a component may take to end by itself before it is killed.
    grace_s: float = Field(default=15.0, gt=0.0)
    # How long the start may take.
    healthy_within_s: float = Field(default=180.0, gt=0.0)


def _in_bucket(text: str) -> Path:
    try:
        return storage_path(text)
    except BadInputError as error:
        raise ValueError(str(error)) from error
