"""Requests for tasks that the model was not trained on, and how responses name them."""

from collections.abc import Iterable
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Query

from algorithms.interface.new_tasks import NewTasks

#: Header of responses with the tasks that the common part of the model answered for.
HEADER: Final = b"sibling-new-tasks"
_MAX_BYTES: Final = 4096

NewTasksOption = Annotated[
    NewTasks | None,
    Query(
        description="What to do about tasks that the model was not trained on. `refuse`: an error. "
        "`common`: answer by what the tasks have in common; the response names the tasks, also in "
        "the header `Sibling-New-Tasks`. Default: as the model was trained (`new_tasks`)."
    ),
]


def join_names(names: Iterable[str]) -> str:
    """Return percent-encoded names with commas between them; ``+N`` stands for N more of many."""
    quoted = [quote(name, safe="") for name in names]
    size, n_kept = 0, 0
    for name in quoted:
        size += len(name) + 1
        if size > _MAX_BYTES:
            break
        n_kept += 1
    left_out = len(quoted) - n_kept
    return ",".join([*quoted[:n_kept], *([f"+{left_out}"] if left_out else [])])
