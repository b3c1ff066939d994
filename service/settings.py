"""Every setting of the service, read once from the environment."""

import ipaddress
import os
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024


class Settings(BaseSettings):
    """Settings; each is an environment variable ``SIBLING_<NAME>`` unless it says otherwise."""

    model_config = SettingsConfigDict(
        env_prefix="SIBLING_", env_ignore_empty=True, frozen=True, populate_by_name=True
    )

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="Number of server processes at one address; limits on inference apply to each, "
        "/metrics and statistics under /v2 report totals.",
    )
    require_keys: bool = Field(
        default=False, description="Ask for API keys on loopback too; elsewhere they always are."
    )
    allow_open_network: bool = Field(
        default=False, description="Listen beyond this machine and ask nobody who calls."
    )
    first_key: SecretStr = Field(
        SecretStr(""),
        description="A key, sib_<id>_<secret>, with all scopes for the owner 'admin'; made where "
        "there is no key yet, so that a fresh deployment can be used.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least weight of events that are logged."
    )
    data_dir: Path = Field(Path("sibling-data"), description="Folder of the database and cache.")
    database_url: str = Field(
        "",
        validation_alias=AliasChoices("DATABASE_URL", "SIBLING_DATABASE_URL"),
        description="SQLAlchemy address of SQLite or PostgreSQL; SQLite in data_dir if empty.",
    )
    engine_url: str = Field(
        "",
        validation_alias=AliasChoices("ENGINE_URL", "SIBLING_ENGINE_URL"),
        description="Address of a Dask scheduler; workers on this machine if empty.",
    )
    tls_dir: Path | None = Field(
        None, description="Folder of ca.pem, cert.pem and key.pem, for a scheduler by tls://."
    )

    slots: int = Field(0, ge=0, description="Jobs at a time in the embedded pool; 0: one a core.")
    default_timeout_s: float = Field(3600, gt=0, description="Time limit of a job without one.")
    max_timeout_s: float = Field(7 * 86400, gt=0, description="Longest time limit of a job.")
    default_memory_mb: int = Field(4096, ge=64, description="Memory limit of a job without one.")
    max_attempts: int = Field(3, ge=1, description="Tries at a job before a lost one has failed.")
    max_queued: int = Field(10_000, ge=1, description="Jobs that one owner may have waiting.")
    heartbeat_s: float = Field(0.25, gt=0, description="Time between two heartbeats of a job.")
    stale_s: float = Field(60, gt=0, description="A job without heartbeat for so long is lost.")
    stop_grace_s: float = Field(5, ge=0, description="Time to stop at a flag, and at SIGTERM.")
    checkpoint_s: float = Field(30, gt=0, description="Time between two checkpoints of a job.")
    max_checkpoint_bytes: int = Field(
        256 * MIB, gt=0, description="A larger checkpoint is not stored: the job begins anew."
    )
    patience_s: float = Field(
        600, gt=0, description="An ended job waits so long for a database that is away or full."
    )
    drain_s: float = Field(
        5, ge=0, description="Time that running jobs have to end once the service is stopped."
    )
    lease_s: float = Field(10, gt=0, description="A dispatcher silent for so long is replaced.")

    max_body_bytes: int = Field(32 * MIB, gt=0, description="Largest body but for uploads.")
    max_upload_bytes: int = Field(2048 * MIB, gt=0, description="Largest dataset upload.")
    max_expanded_bytes: int = Field(8192 * MIB, gt=0, description="Largest upload, decompressed.")
    max_expansion: float = Field(200, gt=1, description="Largest decompression ratio.")
    max_tasks: int = Field(10_000, gt=0, description="Most tasks in a dataset.")
    max_features: int = Field(100_000, gt=0, description="Most columns in a task.")
    max_name_length: int = Field(200, gt=0, description="Longest name of a task or column.")
    ingest_timeout_s: float = Field(600, gt=0, description="Time limit of parsing an upload.")
    ingest_memory_mb: int = Field(4096, ge=256, description="Memory limit of parsing an upload.")
    ingest_wait_s: float = Field(
        2, ge=0, description="An upload parsed sooner is answered at once."
    )
    inference_threads: int = Field(
        0,
        ge=0,
        description="Inference calls computed at a time; 0: one a core, in all processes.",
    )
    inference_waiting: int = Field(
        256, ge=0, description="Inference calls that may wait; one more is answered 503."
    )
    max_inference_rows: int = Field(100_000, gt=0, description="Most rows in an inference call.")
    max_answer_bytes: int = Field(
        256 * MIB, gt=0, description="Largest array that an inference call may give."
    )
    model_cache_bytes: int = Field(1024 * MIB, gt=0, description="Memory for loaded models.")
    blob_cache_bytes: int = Field(
        20 * 1024 * MIB, gt=0, description="Disk for local copies of datasets and models."
    )

    def resolved_database_url(self) -> str:
        """Give the database address, SQLite in the data folder by default."""
        if self.database_url:
            return self.database_url
        return f"sqlite:///{(self.data_dir / 'sibling.db').resolve()}"

    def is_local(self) -> bool:
        """Tell whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def asks_for_keys(self) -> bool:
        """Tell whether requests need an API key."""
        return self.require_keys or not (self.is_local() or self.allow_open_network)

    def resolved_slots(self) -> int:
        """Give the number of jobs that run at a time in the embedded pool."""
        return self.slots or os.cpu_count() or 1

    def resolved_inference_threads(self) -> int:
        """Give the number of inference calls that each process computes at a time."""
        share = (os.cpu_count() or 1) // self.workers
        return self.inference_threads or max(1, share)
