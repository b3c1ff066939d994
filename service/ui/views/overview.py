"""The overview: unfinished and failed jobs, newest models and datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from service.storage.job_states import UNFINISHED, ShownJobState
from service.ui import formats, tables
from service.ui.api import Api
from service.ui.tables import Cell, Table, TableRow
from service.ui.views import jobs, lists

_RECENT: Final = timedelta(days=1)
_N_ROWS: Final = 8
_UNFINISHED: Final = (*UNFINISHED, ShownJobState.CANCELLING)
_MODEL_COLUMNS: Final = ("Model", "Learning together", "Algorithm", "Training took", "Finished")
_VERDICTS: Final = {"equal": "makes no difference", "unclear": "cannot be told"}
_WORKERS: Final = ("responding", "silent")


@dataclass(frozen=True, slots=True)
class Overview:
    """Contents of the overview.

    Parameters
    ----------
    problems
        Reasons why the service is not ready, and its warnings.
    models
        Successful jobs, with the verdict of their comparison if they have one.
    datasets
        The newest datasets; None if the caller may not read datasets.
    machine
        Workers and disk; empty if the caller may not read metrics.
    is_empty
        Whether there is nothing at all, so that first steps are shown.
    """

    sentence: str
    problems: Sequence[str]
    unfinished: Table
    failed: Table
    models: Table
    datasets: Table | None
    machine: Sequence[tuple[str, Cell]]
    is_empty: bool


async def overview(api: Api) -> Overview:
    """Return the overview."""
    health = await _health(api)
    by_state = {str(state): await _jobs(api, state) for state in _UNFINISHED}
    failed = [
        job
        for state in ("failed", "timed_out")
        for job in await _jobs(api, state)
        if datetime.now(UTC) - formats.moment(job["finished_at"]) < _RECENT
    ]
    succeeded = [job for job in await _jobs(api, "succeeded") if job["inference"] is None]
    datasets = await api.find("/v1/datasets", refused=lists.FORBIDDEN, page_size=_N_ROWS)
    unfinished = [job for state_jobs in by_state.values() for job in state_jobs]
    return Overview(
        sentence=overview_sentence({**by_state, "failed": failed}),
        problems=[*health["reasons"], *health["warnings"]],
        unfinished=jobs.table_without_models("Jobs that run or wait", unfinished),
        failed=jobs.table_without_models("Failed since yesterday", failed, "Error"),
        models=Table("Newest models", _MODEL_COLUMNS, [_model_row(job) for job in succeeded]),
        datasets=None if datasets is None else _datasets(datasets["items"]),
        machine=machine_facts(await api.text("/metrics")),
        is_empty=not (unfinished or failed or succeeded or datasets is None or datasets["items"]),
    )


def _datasets(items: Sequence[Mapping[str, Any]]) -> Table:
    return Table("Newest datasets", lists.DATASET_COLUMNS, lists.dataset_rows(items))


def _model_row(job: Mapping[str, Any]) -> TableRow:
    """Return the row of a job that succeeded: its result, and whether learning together helps."""
    result = job["result"] or {}
    pair = result.get("together_or_apart") or result
    verdict = f"no verdict: {pair['reason']}" if pair.get("reason") else pair.get("verdict", "")
    if pair.get("certainty"):
        verdict = f"{pair['certainty']} {verdict}"
    return TableRow(
        job["id"],
        [
            jobs.model_cell(job),
            tables.text(_VERDICTS.get(verdict, verdict)),
            tables.algorithm(job["algorithm"]),
            jobs.progress_cell(job),
            tables.time(job["finished_at"]),
        ],
    )


def machine_facts(metrics: str) -> list[tuple[str, Cell]]:
    """Return workers and disk from metrics in the Prometheus text format."""
    samples = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line[:8] == "sibling_")
    facts = []
    workers = {state: samples.get(f'sibling_workers{{state="{state}"}}') for state in _WORKERS}
    if any(workers.values()):
        parts = [f"{int(float(n))} {state}" for state, n in workers.items() if n and float(n)]
        facts.append(("Workers", tables.text(", ".join(parts) or "none")))
    free, size = (samples.get(f"sibling_disk_{name}_bytes") for name in ("free", "size"))
    if free is not None and size is not None:
        amounts = [formats.size(int(float(value))) for value in (free, size)]
        facts.append(("Free disk", tables.text(" of ".join(amounts))))
    return facts


async def _health(api: Api) -> dict[str, Any]:
    return await api.get("/v2/health/live")


async def _jobs(api: Api, state: str) -> list[dict[str, Any]]:
    page = await api.get("/v1/jobs", state=state, page_size=_N_ROWS)
    items: list[dict[str, Any]] = page["items"]
    return items


def overview_sentence(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return a sentence with the number of jobs in each state.

    Parameters
    ----------
    found
        Jobs by state; ``failed`` has jobs of the last day.
    """
    verbs = {
        "running": ("is running", "are running"),
        "submitted": ("starts", "start"),
        "waiting": ("runs its parts", "run their parts"),
        "queued": ("is queued", "are queued"),
        "cancelling": ("is being cancelled", "are being cancelled"),
        "failed": ("failed since yesterday", "failed since yesterday"),
    }
    parts = []
    for state, verb in verbs.items():
        n_jobs = len(found[state])
        if n_jobs:
            more = " or more" if n_jobs == _N_ROWS else ""
            noun = "job" if n_jobs == 1 else "jobs"
            parts.append(f"{n_jobs}{more} {noun} {verb[n_jobs > 1]}")
    return f"{', '.join(parts)}." if parts else "Nothing is running."
