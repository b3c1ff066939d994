"""Settings of the service, read from environment variables."""

import ipaddress
import os
import resource
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB: Final = 1024 * 1024
PREFIX: Final = "SIBLING_"
#: Pattern of the path below which a proxy offers the service.
ROOT_PATH: Final = r"(/[A-Za-z0-9._~-]+)+"
#: Highest limits of a job, which settings can lower.
MAX_PRIORITY: Final = 100
MAX_MEMORY_MB: Final = 2**20
MAX_THREADS: Final = 256
MAX_JOB_ATTEMPTS: Final = 20
#: Maximum time that a request can ask to wait.
MAX_WAIT_S: Final = 60
#: Open files of a process that are not connections, such as those of the database.
_OTHER_FILES: Final = 256
_MIN_CONNECTIONS: Final = 20
#: More threads hardly make the parsing of a file faster.
_MAX_INGEST_THREADS: Final = 4
#: Possible beginnings of the URL of a database.
_DRIVERS: Final = {"sqlite", "sqlite+pysqlite", "postgres", "postgresql", "postgresql+psycopg"}


class Settings(BaseSettings):
    """Settings; each field is the environment variable ``SIBLING_<NAME>``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 selects a free port.")
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="Number of server processes. Inference limits apply per process; /metrics and "
        "the statistics under /v2 report totals.",
    )
    require_keys: bool = Field(
        default=False,
        description="Require API keys on the loopback address. On other addresses they are always "
        "required, except with SIBLING_ALLOW_OPEN_NETWORK.",
    )
    allow_open_network: bool = Field(
        default=False,
        description="Allow requests without API keys on an address that other machines can reach.",
    )
    allowed_hosts: str = Field(
        "",
        description="Host names that requests may use, separated by commas; '*' allows any. On the "
        "loopback address, localhost, 127.0.0.1 and [::1] are allowed too. On other addresses, the "
        "default allows any.",
    )
    tls_cert_file: Path | None = Field(
        None, description="PEM file of the certificate chain of HTTPS. Default: HTTP."
    )
    tls_key_file: Path | None = Field(
        None,
        description="PEM file of the private key. Default: the key is in SIBLING_TLS_CERT_FILE.",
    )
    trusted_proxies: str = Field(
        "",
        description="IP addresses and networks of reverse proxies, separated by commas, whose "
        "X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Prefix are used. Default: none.",
    )
    root_path: str = Field(
        "",
        pattern=f"^({ROOT_PATH})?$",
        description="Path below which a reverse proxy offers the service, such as /ml; the proxy "
        "may remove it or not. X-Forwarded-Prefix of a trusted proxy takes its place.",
    )
    max_connections: int = Field(
        8192,
        ge=_MIN_CONNECTIONS,
        description="Maximum number of open connections per process. It is lower if the limit "
        "of open files is not at least 256 above it. At the maximum, the connection that has been "
        "idle longest is closed for a new one. At nine tenths of it, requests except health checks "
        "get 503.",
    )
    header_timeout_s: float = Field(
        20,
        gt=0,
        description="Time limit of the headers of a request, from the first byte, or from the "
        "opening of the connection, in seconds.",
    )
    body_timeout_s: float = Field(
        60,
        gt=0,
        description="Time without a byte of a request's body after which the request gets 408, in "
        "seconds.",
    )
    send_timeout_s: float = Field(
        60,
        gt=0,
        description="Time for which a client may read nothing of a response before its connection "
        "is closed, in seconds.",
    )
    keep_alive_timeout_s: int = Field(
        75,
        ge=1,
        description="Time after which a connection without a request is closed, in seconds. It "
        "should be longer than the same timeout of a reverse proxy.",
    )
    bootstrap_key: SecretStr = Field(
        SecretStr(""),
        description="API key, sib_<id>_<secret>, with all scopes for the owner 'admin'. Stored at "
        "the start of a service that has no key.",
    )
    session_hours: float = Field(
        12, gt=0, le=8760, description="Hours after which a session of a browser ends."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Minimum level of logged events."
    )
    tracing: bool = Field(
        default=False,
        description="Send traces of requests and jobs to an OpenTelemetry collector (OTLP over "
        "HTTP). The variables OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER etc. of "
        "OpenTelemetry configure it. Needs the extra `tracing`.",
    )
    data_dir: Path = Field(
        Path("sibling-data"), description="Directory of the SQLite database and the cache."
    )
    min_free_bytes: int = Field(
        1024 * MIB,
        ge=0,
        description="Free space of the disks of SIBLING_DATA_DIR and of the SQLite file below "
        "which health has a warning, in bytes. The service is not ready once a disk is full.",
    )
    database_url: str = Field(
        "",
        description="SQLAlchemy URL of SQLite or PostgreSQL. Default: SQLite in SIBLING_DATA_DIR.",
    )
    db_statement_timeout_s: float = Field(
        30,
        ge=1,
        description="Time limit of a statement on PostgreSQL, in seconds. Requests get 503 after "
        "it; a server that does not respond at all is detected 5 seconds later.",
    )
    db_connect_timeout_s: float = Field(
        10, ge=2, description="Time limit of a connection attempt to PostgreSQL, in seconds."
    )
    db_max_connections: int = Field(
        0,
        ge=0,
        description="Maximum number of database connections of a server process; 0: one for each "
        "thread that uses the database. Requests that find no free connection wait 10 seconds for "
        "one, then get 503.",
    )
    scheduler_url: str = Field(
        "", description="URL of a Dask scheduler. Default: a worker pool on this machine."
    )
    tls_dir: Path | None = Field(
        None, description="Directory of ca.pem, cert.pem and key.pem, for a scheduler at tls://."
    )

    worker_slots: int = Field(
        0,
        ge=0,
        description="Number of jobs that run at the same time on this machine; 0: one per core.",
    )
    default_timeout_s: float = Field(
        3600, gt=0, description="Time limit of an attempt, for jobs that set none, in seconds."
    )
    max_timeout_s: float = Field(
        7 * 86400, gt=0, description="Maximum time limit that a job can set, in seconds."
    )
    max_memory_mb: int = Field(
        MAX_MEMORY_MB,
        ge=512,
        le=MAX_MEMORY_MB,
        description="Maximum memory limit that a job can set, in MiB; not above the default.",
    )
    max_threads: int = Field(
        MAX_THREADS,
        ge=1,
        le=MAX_THREADS,
        description="Maximum number of threads that a job can set; not above the default.",
    )
    max_job_attempts: int = Field(
        MAX_JOB_ATTEMPTS,
        ge=1,
        le=MAX_JOB_ATTEMPTS,
        description="Maximum number of attempts that a job can set; not above the default.",
    )
    max_priority: int = Field(
        MAX_PRIORITY,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Maximum priority that a job can set; not above the default.",
    )
    default_memory_mb: int = Field(
        4096, ge=64, description="Memory limit of jobs that set none, in MiB."
    )
    max_attempts: int = Field(
        3,
        ge=1,
        description="Number of attempts after which a job fails if its worker was lost each time, "
        "for jobs that set none.",
    )
    max_queued_jobs: int = Field(
        10_000, ge=1, description="Maximum number of queued jobs per owner."
    )
    max_datasets: int = Field(
        100_000, ge=0, description="Maximum number of datasets per owner; 0: no limit."
    )
    max_models: int = Field(
        100_000, ge=0, description="Maximum number of model versions per owner; 0: no limit."
    )
    max_stored_bytes: int = Field(
        1024 * 1024 * MIB,
        ge=0,
        description="Maximum size of the datasets, models and outputs of an owner; 0: no limit. "
        "A dataset that is larger than its upload is rejected after parsing if it exceeds it, and "
        "a job whose model or outputs exceed it fails.",
    )
    max_requests_per_s: float = Field(
        0,
        ge=0,
        description="Requests per second that an owner can sustain in each process; further ones "
        "get 429. The requests of two seconds, and at least 10, can come at once. 0: no limit.",
    )
    priority_across_owners: bool = Field(
        default=False,
        description="Start a job of higher priority before the jobs of all other owners. By "
        "default, owners take turns, and priorities order the jobs of one owner.",
    )
    max_waiting_requests: int = Field(
        1000,
        ge=1,
        description="Maximum number of event streams and requests with `wait`, per owner and "
        "process, and at most a quarter of its connections. Further streams get 429; further "
        "requests do not wait.",
    )
    max_wait_s: float = Field(
        50,
        gt=0,
        le=MAX_WAIT_S,
        description="Time after which requests with a longer `wait` are answered anyway, in "
        "seconds. It should be shorter than the time limit of a reverse proxy, which is often 60 "
        "seconds: the caller would get its error, and not the id of the job.",
    )
    heartbeat_interval_s: float = Field(
        0.25,
        gt=0,
        description="Time between two heartbeats of a running job, in seconds. It grows if more "
        "jobs run at the same time than docs/how-to/scaling.md allows for.",
    )
    heartbeat_timeout_s: float = Field(
        60,
        gt=0,
        description="Time without a heartbeat after which an attempt is considered lost, "
        "in seconds.",
    )
    submit_timeout_s: float = Field(
        30,
        gt=0,
        description="Time in which a worker has to start an attempt before another worker gets the "
        "job, in seconds. Such an attempt does not count.",
    )
    stop_grace_s: float = Field(
        5,
        ge=0,
        description="Time that a job has to stop by itself before it gets SIGTERM, in seconds.",
    )
    checkpoint_interval_s: float = Field(
        30, gt=0, description="Time between two checkpoints of a job, in seconds."
    )
    max_checkpoint_bytes: int = Field(
        256 * MIB,
        gt=0,
        description="Maximum size of a checkpoint. Larger ones are not stored, so another attempt "
        "starts from the beginning.",
    )
    db_retry_timeout_s: float = Field(
        600,
        gt=0,
        description="How long a finished job retries storing its result when the database is "
        "unavailable or full, in seconds.",
    )
    drain_timeout_s: float = Field(
        5,
        ge=0,
        description="Time that running jobs have to finish when the service stops, in seconds. "
        "After it, they store a checkpoint and return to the queue.",
    )
    lease_timeout_s: float = Field(
        10,
        gt=0,
        description="Time without renewal after which another process takes over the "
        "dispatch of jobs, in seconds.",
    )

    max_body_bytes: int = Field(
        32 * MIB, gt=0, description="Maximum body of an inference request, in bytes."
    )
    max_control_body_bytes: int = Field(
        MIB,
        gt=0,
        description="Maximum body of all requests but inference and uploads, in bytes.",
    )
    max_upload_bytes: int = Field(2048 * MIB, gt=0, description="Maximum size of a dataset upload.")
    max_decompressed_bytes: int = Field(
        8192 * MIB, gt=0, description="Maximum size of a dataset after decompression."
    )
    max_decompression_ratio: float = Field(
        200,
        gt=1,
        description="Maximum ratio of decompressed to compressed size. Values of Parquet and Arrow "
        "files count with 8 bytes or more; archives and such files of up to 16 MiB when "
        "decompressed may have any ratio.",
    )
    max_tasks: int = Field(10_000, gt=0, description="Maximum number of tasks in a dataset.")
    max_features: int = Field(100_000, gt=0, description="Maximum number of columns of a task.")
    max_name_length: int = Field(
        200, gt=0, description="Maximum length of the name of a task or column."
    )
    ingest_timeout_s: float = Field(
        600, gt=0, description="Time limit of parsing an upload, in seconds."
    )
    ingest_memory_mb: int = Field(
        4096, ge=256, description="Memory limit of parsing an upload, in MiB."
    )
    ingest_threads: int = Field(
        0,
        ge=0,
        description="Number of threads that parse an upload; 0: the number of cores, at most "
        f"{_MAX_INGEST_THREADS}. Two uploads are parsed at the same time.",
    )
    ingest_wait_s: float = Field(
        2,
        ge=0,
        description="How long an upload request waits for parsing before it returns 202, in "
        "seconds.",
    )
    inference_threads: int = Field(
        0,
        ge=0,
        description="Number of inference requests that a process computes at the same time; 0: the "
        "number of cores divided by SIBLING_WORKERS.",
    )
    inference_queue_size: int = Field(
        256,
        ge=0,
        description="Number of inference requests per process that can wait for a thread; further "
        "ones get 503.",
    )
    max_inference_rows: int = Field(
        100_000, gt=0, description="Maximum number of rows in an inference request."
    )
    max_response_bytes: int = Field(
        256 * MIB, gt=0, description="Maximum size of the output array of an inference request."
    )
    model_cache_bytes: int = Field(
        1024 * MIB, gt=0, description="Memory for loaded models, per process."
    )
    blob_cache_bytes: int = Field(
        20 * 1024 * MIB, gt=0, description="Disk space for local copies of datasets and models."
    )

    webhook_hosts: str = Field(
        "",
        description="Host names that webhooks may be sent to, separated by commas; *.example.com "
        "allows all below example.com, and '*' any. Default: none, so that there are no webhooks.",
    )
    webhook_networks: str = Field(
        "",
        description="Networks that webhooks may be sent to although their addresses are not "
        "public, such as 10.1.0.0/16, separated by commas. Default: none.",
    )

    retention_events_days: float = Field(
        0,
        ge=0,
        le=36500,
        description="Age in days at which events of finished jobs are deleted; 0: never before "
        "their job.",
    )
    retention_attempts_days: float = Field(
        0,
        ge=0,
        le=36500,
        description="Days after the end of an attempt at which it is deleted, once its job has "
        "finished; 0: never before its job.",
    )
    retention_jobs_days: float = Field(
        0,
        ge=0,
        le=36500,
        description="Days after their end at which jobs are deleted, with child jobs, events and "
        "outputs; 0: never. A job stays as long as a model version that it made.",
    )
    retention_idempotency_keys_days: float = Field(
        30,
        ge=0,
        le=36500,
        description="Age in days at which an Idempotency-Key is forgotten, so that a request with "
        "it runs again; 0: never.",
    )
    retention_audit_days: float = Field(
        365, ge=0, le=36500, description="Age in days at which audit events are deleted; 0: never."
    )
    retention_uploads_days: float = Field(
        1,
        ge=0,
        le=36500,
        description="Days after the last byte at which a resumable upload is deleted; 0: never.",
    )
    retention_blobs_days: float = Field(
        1,
        ge=0.05,
        le=36500,
        description="Days after the last write at which unreferenced data is deleted, such as the "
        "data of an interrupted upload.",
    )
    retention_webhook_deliveries_days: float = Field(
        30,
        ge=4,
        le=36500,
        description="Age in days at which deliveries of webhooks are deleted. It is longer than "
        "a delivery is tried again.",
    )
    retention_interval_s: float = Field(
        600, gt=0, description="Time between two deletions of expired data, in seconds."
    )

    @field_validator("root_path", mode="before")
    @classmethod
    def _remove_last_slash(cls, value: Any) -> Any:
        """Return a path without slashes at its end."""
        return value.rstrip("/") if isinstance(value, str) else value

    @field_validator("database_url")
    @classmethod
    def _require_shared_database(cls, value: str) -> str:
        """Raise an error for a URL of another kind of database, or of one in memory."""
        if not value:
            return value
        driver, separator, place = value.partition("://")
        file = place.partition("?")[0].removeprefix("/")
        reason = None
        if not separator:
            reason = "no URL"
        elif driver not in _DRIVERS:
            reason = f"{driver} is not supported"
        elif driver.startswith("sqlite") and file in ("", ":memory:"):
            reason = "a database in memory cannot be shared with workers"
        if reason is not None:
            text = f"{reason}; expected postgresql://USER@HOST/NAME or sqlite:///FILE"
            raise PydanticCustomError("database_url", "{text}", {"text": text})
        return value

    @field_validator("webhook_networks")
    @classmethod
    def _require_networks(cls, value: str) -> str:
        """Raise an error for text that is no network."""
        for part in _parts(value):
            try:
                ipaddress.ip_network(part)
            except ValueError as error:
                text = f"{error}; expected networks such as 10.1.0.0/16, separated by commas"
                raise PydanticCustomError("networks", "{text}", {"text": text}) from None
        return value

    @model_validator(mode="after")
    def _require_heartbeats_before_timeout(self) -> Self:
        """Raise an error if attempts that run could be considered lost between two heartbeats."""
        interval_s, timeout_s = self.heartbeat_interval_s, self.heartbeat_timeout_s
        if timeout_s < 2 * interval_s:
            text = (
                f"SIBLING_HEARTBEAT_TIMEOUT_S ({timeout_s:g}) must be at least twice "
                f"SIBLING_HEARTBEAT_INTERVAL_S ({interval_s:g}), or jobs that run are considered "
                "lost"
            )
            raise PydanticCustomError("heartbeat", "{text}", {"text": text})
        return self

    def resolved_database_url(self) -> str:
        """Return the URL of the database, by default SQLite in the data directory."""
        if self.database_url:
            return self.database_url
        return f"sqlite:///{(self.data_dir / 'sibling.db').resolve()}"

    def resolved_webhook_hosts(self) -> list[str]:
        """Return the host names that webhooks may be sent to; none if there are no webhooks."""
        return _parts(self.webhook_hosts.lower())

    def resolved_webhook_networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        """Return the networks that webhooks may be sent to although they are not public."""
        return [ipaddress.ip_network(part) for part in _parts(self.webhook_networks)]

    def is_local(self) -> bool:
        """Return whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def requires_keys(self) -> bool:
        """Return whether requests need an API key."""
        return self.require_keys or not (self.is_local() or self.allow_open_network)

    def resolved_max_connections(self) -> int:
        """Return the maximum number of connections that this process can have."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return self.max_connections
        return max(_MIN_CONNECTIONS, min(self.max_connections, soft - _OTHER_FILES))

    def resolved_max_waiting_requests(self) -> int:
        """Return the maximum number of event streams and waiting requests of an owner.

        One owner gets at most a quarter of the connections.
        """
        return min(self.max_waiting_requests, self.resolved_max_connections() // 4)

    def resolved_worker_slots(self) -> int:
        """Return the number of jobs that run at the same time in the embedded pool."""
        return self.worker_slots or os.cpu_count() or 1

    def resolved_ingest_threads(self) -> int:
        """Return the number of threads that parse an upload."""
        return self.ingest_threads or min(os.cpu_count() or 1, _MAX_INGEST_THREADS)

    def resolved_inference_threads(self) -> int:
        """Return the number of inference requests that each process computes at the same time."""
        share = (os.cpu_count() or 1) // self.workers
        return self.inference_threads or max(1, share)


def _parts(value: str) -> list[str]:
    """Return the parts of a setting that are separated by commas."""
    return [part.strip() for part in value.split(",") if part.strip()]
