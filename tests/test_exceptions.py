"""Every exception of the packages survives pickling and copying, which process pools need."""

import copy
import copyreg
import errno
import importlib
import pickle
import pkgutil

import pytest

import algorithms
import service
import sibling
from algorithms.interface.new_tasks import NewTasksWarning
from algorithms.wrappers.preparation import invalid_column
from service.datasets.issues import Rejected, ValidationIssue
from service.errors.problems import Problem
from service.storage.shortages import Shortage, ShortOf
from service.ui.api import Refused
from sibling import JobFailed, ServiceError, ServiceUnreachable

PLACE = {"pointer": "/params/k", "code": "invalid-params", "detail": "expected 1 or more"}
FAILED = {"code": "timed-out", "detail": "took longer than 1 s", "remedy": "raise the limit"}

#: Exceptions with a constructor of their own; all others are made of a message.
EXAMPLES = {
    ServiceError: lambda: ServiceError(422, "invalid-params", "k is 0", [PLACE], "set k"),
    ServiceUnreachable: lambda: ServiceUnreachable("http://a", "refused", "the job goes on"),
    JobFailed: lambda: JobFailed({"id": "job_1", "state": "failed", "error": FAILED}),
    Problem: lambda: Problem("invalid-params", "k is 0", errors=[PLACE], headers={"Allow": "GET"}),
    Rejected: lambda: Rejected(*(ValidationIssue("bad-value", f"row {i}", row=i) for i in (1, 2))),
    invalid_column.InvalidColumn: lambda: invalid_column.InvalidColumn(
        *(invalid_column.Problem("bad-value", f"row {i}", "age", i) for i in (1, 2))
    ),
    NewTasksWarning: lambda: NewTasksWarning(["north", "south"], n_more=3),
    ShortOf: lambda: ShortOf(Shortage(errno.ENOSPC, "the cache")),
    Refused: lambda: Refused({"status": 409, "detail": "the job runs"}),
}


def exceptions():
    """Return all classes of exceptions that the packages define."""
    modules = [
        importlib.import_module(module.name)
        for package in (algorithms, service, sibling)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not module.name.endswith("__main__")
    ]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == module.__name__
    }
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def seen(error):
    return type(error), str(error), repr(error), error.args, vars(error)


COPIES = {
    f"pickle-{protocol}": lambda error, protocol=protocol: pickle.loads(
        pickle.dumps(error, protocol)
    )
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
} | {"copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("made", COPIES.values(), ids=COPIES)
def test_every_exception_survives_copies(made, monkeypatch):
    kinds = exceptions()
    assert EXAMPLES.keys() <= set(kinds)
    for kind in kinds:
        # Dask, which clients do not import, sets how all exceptions are pickled
        monkeypatch.delitem(copyreg.dispatch_table, kind, raising=False)
        error = EXAMPLES.get(kind, lambda kind=kind: kind("expected 1, got 2"))()
        error.add_note("of the caller")
        error.extra = [1]
        assert seen(made(error)) == seen(error), kind
