"""The verdict of a report in words."""

import numpy as np

from algorithms.evaluation.monitoring.pooling import pool_changes
from service.monitoring.report_schemas import ObservedError, TaskState
from service.monitoring.verdict import describe
from service.storage.database import now


def state(task, *, is_alarmed=False, has_error=True, is_far_above=False):
    error = ObservedError(
        metric="rmse",
        n_rows=50,
        value=1,
        low=0.9,
        high=1.1,
        promised=1,
        alarm_since=now() if is_alarmed else None,
        is_far_above=is_far_above,
    )
    return TaskState(
        task=task,
        n_rows=50,
        n_targets=50,
        is_new=False,
        error=error if has_error else None,
        coverage=None,
        estimated_error=None,
    )


def test_several_broken_tasks_are_named_and_others_only_where_their_errors_are_known():
    tasks = [f"t{i}" for i in range(20)]
    changes = pool_changes(np.array([1.5] * 4 + [0.0] * 16), np.full(20, 0.04))
    states = [state(task, is_alarmed=i < 4) for i, task in enumerate(tasks)]
    overall = state(None, is_alarmed=True)
    verdict = describe(overall, states, [], (tasks, changes), n_rows=1000)
    assert (verdict.kind, verdict.tasks) == ("tasks", tasks[:4])
    assert verdict.sentences[0].endswith("; the other tasks are as promised.")
    unknown = [*states[:4], *(state(task, has_error=False) for task in tasks[4:])]
    few = pool_changes(np.array([0.1, 1.5, 0.1, 0.1]), np.full(4, 0.04))
    verdict = describe(overall, unknown, [], (tasks[:4], few), n_rows=1000)
    assert "other tasks" not in verdict.sentences[0]


def test_errors_far_above_the_promise_are_named_without_an_alarm():
    states, changes = [state("a"), state("b")], pool_changes(np.zeros(2), np.ones(2))

    def said(*states, overall):
        verdict = describe(overall, states, [], (["a", "b"], changes), n_rows=100)
        assert (verdict.kind, verdict.tasks) == ("quiet", [])
        return verdict.sentences[0]

    assert said(*states, overall=state(None)).startswith("Errors are not clearly larger")
    far = state(None, is_far_above=True)
    assert "larger than promised over all tasks together; " in said(*states, overall=far)
    assert "promised in: 'b'; " in said(state("b", is_far_above=True), states[0], overall=far)
