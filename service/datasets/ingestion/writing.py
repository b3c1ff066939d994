"""The file and the manifest of parsed tasks."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from service.datasets.canonical import write_tasks
from service.datasets.distributions import describe_all
from service.datasets.formats.parsed import Parsed


def write_parsed(
    path: Path, parsed: Parsed, codes: Sequence[str] = (), *, n_threads: int = 1
) -> dict[str, Any]:
    """Write tasks to a file and return their manifest.

    Parameters
    ----------
    codes
        Warnings about targets that look like codes of classes.
    n_threads
        Number of threads that describe the columns, beside the one that writes.
    """
    with ThreadPoolExecutor(n_threads) as pool:
        overall = pool.submit(describe_all, parsed.tasks, parsed.columns)
        manifest = write_tasks(
            path,
            parsed.tasks,
            columns=parsed.columns,
            unlabelled=parsed.unlabelled,
            map_=pool.map,
        )
        manifest["overall"] = overall.result()
    if parsed.ignored:
        manifest["ignored"] = sorted(parsed.ignored)
    if parsed.empty:
        manifest["empty"] = list(parsed.empty)
    if parsed.task_column is not None:
        manifest["task_column"] = parsed.task_column
    if parsed.numbers:
        manifest["number_writings"] = parsed.numbers.to_json()
    manifest["warnings"] = [*parsed.notes, *codes]
    manifest["target_warnings"] = list(codes)
    return manifest
