"""What became of the jobs, read from the database."""

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from service.storage.database import Database
from service.storage.job_states import FINAL
from service.storage.tables import (
    AttemptRow,
    BlobRow,
    DatasetRow,
    EventRow,
    JobRow,
    ModelRow,
    VersionRow,
)

BLOB_COLUMNS = (
    DatasetRow.upload_blob_id,
    DatasetRow.content_blob_id,
    JobRow.output_blob_id,
    JobRow.checkpoint_blob_id,
    VersionRow.artifact_blob_id,
)


def await_ends(database: Database, patience_s: float) -> None:
    """Wait until every job has ended, or none has for so long."""
    before, since = -1, time.monotonic()
    while time.monotonic() - since < patience_s:
        with database.read() as session:
            query = sa.select(sa.func.count()).where(JobRow.state.notin_(FINAL))
            n_open = session.scalar(query) or 0
        if n_open == 0:
            return
        if n_open != before:
            before, since = n_open, time.monotonic()
        time.sleep(0.5)


def show(
    database: Database, load: Any, kills: Sequence[Any], orphans: list[str], files: list[Path]
) -> bool:
    """Print the counts; return True if nothing was lost, duplicated, stuck or left behind."""
    with database.read() as session:
        jobs = {job.id: job for job in session.scalars(sa.select(JobRow))}
        attempts = session.scalars(sa.select(AttemptRow)).all()
        versions = session.scalars(sa.select(VersionRow)).all()
        models = session.scalars(sa.select(ModelRow)).all()
        query = sa.select(EventRow).where(EventRow.kind.in_(("state", "progress")))
        events = session.scalars(query.order_by(EventRow.id)).all()
        blobs = set(session.scalars(sa.select(BlobRow.id)))
        used = {i for column in BLOB_COLUMNS for i in session.scalars(sa.select(column)) if i}
    whole = {job.id for job in jobs.values() if job.parent_id is None}
    lost = [i for i in load.accepted if i not in jobs or jobs[i].state not in FINAL]
    stuck = [job for job in jobs.values() if job.state not in FINAL]
    stuck += [a for a in attempts if a.outcome == "running" and jobs[a.job_id].state in FINAL]
    failed = [job for job in jobs.values() if job.state == "failed"]
    unexplained = [job for job in failed if not _is_used_up(job, jobs)]
    doubled = _doubled(jobs, versions, models)
    if len(whole) != len(set(load.accepted)):
        doubled.append(f"{len(whole)} jobs for {len(set(load.accepted))} requests")
    states = Counter(jobs[i].state for i in whole)
    causes = Counter((job.error or {}).get("code", "?") for job in failed)
    per_job = Counter(a.job_id for a in attempts)
    differing = _differing(jobs, versions)
    counts = {
        "accepted": f"{len(load.accepted)}, and {len(jobs) - len(whole)} child jobs",
        "ended": ", ".join(f"{n} {state}" for state, n in sorted(states.items())),
        "failed by cause": _counts(causes),
        "models": f"{len(versions)} versions of {len(models)} models",
        "attempts": f"{len(attempts)}: {_counts(Counter(a.outcome for a in attempts))}",
        "attempts per job": f"mean {statistics.fmean(per_job.values()):.2f}, "
        f"most {max(per_job.values())}",
        "unanswered": _counts(load.answers),
        "files left": str(len(files)),
        "blobs": f"{len(blobs)}, of which {len(blobs - used)} belong to nothing",
        "bytes": f"{differing[0]} specifications, {len(differing[1])} with different artifacts",
        "lost": str(len(lost)),
        "doubled": str(len(doubled)),
        "stuck": str(len(stuck)),
        "orphans": str(len(orphans)),
        "failed otherwise": str(len(unexplained)),
    }
    for name, text in counts.items():
        print(f"  {name:<18}{text}")
    _show_kills(kills, events)
    for trouble in [*lost, *doubled, *(s.__dict__ for s in stuck), *orphans, *files]:
        print("  !", trouble)
    for job in unexplained:
        print("  !", job.id, job.error)
    print("".join(f"  ! different bytes: {spec}\n" for spec in differing[1]), end="")
    is_untidy = bool(files or blobs - used)
    return not (lost or doubled or stuck or orphans or unexplained or differing[1] or is_untidy)


def _differing(
    jobs: dict[str, JobRow], versions: Sequence[VersionRow]
) -> tuple[int, list[tuple[str, ...]]]:
    """Return the number of specifications, and those whose models differ in a byte."""
    hashes = defaultdict(set)
    for version in versions:
        job = jobs[version.job_id]
        # params are those that a search chose; all of it depends on the specification only
        spec = (job.algorithm, str(job.params), str(job.plan), str(job.seed))
        hashes[spec].add(version.artifact_sha256)
    return len(hashes), [spec for spec, found in hashes.items() if len(found) > 1]


def _doubled(
    jobs: dict[str, JobRow], versions: Sequence[VersionRow], models: Sequence[ModelRow]
) -> list[str]:
    """Return jobs without just the versions they should have, and models with gaps."""
    made = Counter(version.job_id for version in versions)
    found = [f"a version of {job_id}, which is not there" for job_id in made.keys() - jobs.keys()]
    for job in jobs.values():
        due = int(job.state == "succeeded" and job.parent_id is None)
        if made[job.id] != due:
            found.append(f"{job.id}: {job.state}, {made[job.id]} versions")
    numbers = defaultdict(list)
    for version in versions:
        numbers[version.model_id].append(version.version)
    return found + [
        f"{model.name} of {model.owner} has the versions {numbers[model.id]}"
        for model in models
        if sorted(numbers[model.id]) != list(range(1, model.latest_version + 1))
    ]


def _is_used_up(job: JobRow, jobs: dict[str, JobRow]) -> bool:
    children = [one for one in jobs.values() if one.parent_id == job.id and one.state == "failed"]
    if children:
        return all(_is_used_up(child, jobs) for child in children)
    error = job.error or {"code": "", "detail": ""}
    was_killed = error["code"] == "worker-lost" or (
        error["code"] == "crashed" and "SIGKILL" in error["detail"]
    )
    return was_killed and job.counted_attempts >= job.max_attempts


def _show_kills(kills: Sequence[Any], events: Sequence[EventRow]) -> None:
    """Print how long it took after each kind of kill until what was hit went on, and any job."""
    of_job = defaultdict(list)
    for event in events:
        of_job[event.job_id].append(event)
    starts = [event.created_at for event in events if event.data.get("state") == "running"]
    heads = ("noticed: median", "resumed: median", "next start: median")
    columns = "".join(f"{head:>22}{'max':>8}" for head in heads)
    print(f"  {'kills':<10}{'n':>5}{'jobs hit':>10}{columns}   seconds")
    for layer in sorted({kill.layer for kill in kills}):
        those = [kill for kill in kills if kill.layer == layer]
        hit = [(of_job[job_id], kill, attempt) for kill in those for job_id, attempt in kill.hit]
        any_job = [
            (after[0] - kill.at).total_seconds()
            for kill in those
            if (after := [at for at in starts if at > kill.at])
        ]
        noticed = [t for h in hit if (t := _until(*h, {"queued", *FINAL})) is not None]
        resumed = [t for h in hit if (t := _until(*h, {"running", *FINAL})) is not None]
        print(f"  {layer:<10}{len(those):>5}{len(hit):>10}", end="")
        print(f"{_pair(noticed)}{_pair(resumed)}{_pair(any_job)}")


def _until(
    events: list[EventRow], kill: Any, attempt: int, states: Collection[str]
) -> float | None:
    """Return the time from a kill to the next sign of a job that it hit: a state, or progress."""
    for event in events:
        is_new = event.attempt > attempt or kill.layer == "freeze"
        state = event.data.get("state")
        at: datetime = event.created_at
        if at > kill.at and (state in states or (event.kind == "progress" and is_new)):
            return (at - kill.at).total_seconds()
    return None


def _pair(values: list[float]) -> str:
    if not values:
        return f"{'-':>22}{'-':>8}"
    return f"{statistics.median(values):>22.2f}{max(values):>8.2f}"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.most_common()) or "none"
