"""Module that Dask preloads into the processes that start workers, here and on a cluster."""

from typing import Any

from service.processes.stops import keep_interrupts_from_children


def dask_setup(nanny: Any) -> None:
    """Let workers end as their nanny tells them, also if a terminal interrupts all processes."""
    del nanny
    keep_interrupts_from_children()
