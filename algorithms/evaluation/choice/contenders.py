"""Methods that an automatic choice compares, each with the parameter values that it may select.

They follow from the algorithms: their role or their parameter ``form``, the grids of their
parameters, and how they select parameters themselves.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from algorithms.evaluation.scores.metrics import Metric
from algorithms.evaluation.selection.choices import with_fixed_values
from algorithms.interface.algorithm import Algorithm, Role
from algorithms.interface.errors import AlgorithmError, InvalidData, InvalidParams
from algorithms.interface.tasks import TaskSummary
from algorithms.splits.requirements import fitting_candidates
from algorithms.splits.splits import Splits

Algo = Algorithm[Any, Any]

#: Role of an algorithm for each value of its parameter ``form``.
_ROLE_OF_FORM: Final[dict[str, Role]] = {"task": "single_task", "pooled": "pooled"}


@dataclass(frozen=True, slots=True)
class Contender:
    """A method with the parameter values among which it selects inside its training rows.

    Parameters
    ----------
    variant
        A label that distinguishes contenders of the same algorithm and role.
    candidates
        Parameter values; with one candidate nothing is selected.
    """

    algorithm: str
    role: Role
    variant: str
    candidates: tuple[dict[str, Any], ...]


def contenders_of(algorithm: Algo) -> list[Contender]:
    """Return the contenders of an algorithm.

    An algorithm that can train each task alone, and all tasks pooled, has a contender for each. If
    it can select parameters per task, it has a contender for that, too. Each variant of an
    algorithm is a contender.

    Raises
    ------
    InvalidParams
        A parameter has no default.
    """
    defaults = algorithm.parse({})
    form = algorithm.Params.model_fields.get("form")
    allowed = getattr(form.annotation, "__args__", ()) if form is not None else ()
    forms: dict[Role, dict[str, Any]] = {algorithm.role: {}}
    if set(_ROLE_OF_FORM) <= set(allowed):
        forms = {role: {"form": name} for name, role in _ROLE_OF_FORM.items()}
    contenders = [
        Contender(algorithm.name, role, "", _candidates(algorithm, defaults, values))
        for role, values in forms.items()
    ]
    contenders += [
        Contender(
            algorithm.name, algorithm.role, variant, _candidates(algorithm, defaults, overrides)
        )
        for variant, overrides in algorithm.Params.VARIANTS.items()
    ]
    values = forms.get("single_task")
    if values is not None and "selection_scope" in algorithm.Params.model_fields:
        per_task = {
            **values,
            "selection": algorithm.Params.INNER_SELECTION,
            "selection_scope": "task",
        }
        variant = "parameters per task"
        contenders.append(Contender(algorithm.name, "single_task", variant, (per_task,)))
    return contenders


def find_contenders(
    algorithms: Mapping[str, Algo], tasks: Sequence[TaskSummary], metric: Metric, splits: Splits
) -> tuple[list[Contender], list[dict[str, str]]]:
    """Return the contenders that suit tasks and metric, and the others with the reason for each.

    Candidates that do not suit the tasks, such as more neighbours than rows, are dropped.
    """
    suitable, left_out = [], []
    for name, algorithm in algorithms.items():
        try:
            _check_scores(metric, algorithm, tasks)
            algorithm.needs.check(tasks, algorithm=name)
            contenders = contenders_of(algorithm)
        except AlgorithmError as error:
            left_out.append(_left_out(name, algorithm.role, "", error.message))
            continue
        for contender in contenders:
            fitting, reason = fitting_candidates(algorithm, contender.candidates, tasks, splits)
            if fitting:
                suitable.append(Contender(name, contender.role, contender.variant, fitting))
            else:
                left_out.append(_left_out(name, contender.role, contender.variant, reason))
    return suitable, left_out


def answers_new_tasks(algorithm: Algo, contender: Contender) -> bool:
    """Return whether the models of a contender can answer for tasks that are not trained."""
    return all(
        algorithm.has_common_part(algorithm.parse(values)) for values in contender.candidates
    )


def _check_scores(metric: Metric, algorithm: Algo, tasks: Sequence[TaskSummary]) -> None:
    """Raise InvalidData if the metric cannot score the models of an algorithm."""
    try:
        metric.check(algorithm, tasks)
    except InvalidParams:
        detail = f"the models make no predictions that the metric {metric.name} could score"
        raise InvalidData(detail) from None


def _left_out(algorithm: str, role: str, variant: str, reason: str) -> dict[str, str]:
    return {"algorithm": algorithm, "role": role, "variant": variant, "reason": reason}


def _candidates(
    algorithm: Algo, defaults: Any, values: Mapping[str, Any]
) -> tuple[dict[str, Any], ...]:
    """Return every combination of the grids; one if the algorithm has a faster own selection."""
    params = algorithm.Params
    grids = {name: tuple(getattr(defaults, grid)) for name, grid in params.GRIDS.items()}
    base = dict(values)
    if "selection" in params.model_fields and params.INNER_SELECTION != "cv":
        base["selection"], grids = params.INNER_SELECTION, {}
    space = {**params.ALTERNATIVES, **grids}
    combinations = (
        dict(zip(space, chosen, strict=True)) for chosen in itertools.product(*space.values())
    )
    return tuple(
        with_fixed_values(algorithm, {**base, **combination}, combination)
        for combination in combinations
    )
