"""What every algorithm promises; the contract tests run over all of them."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace

P = TypeVar("P", bound=Params)
M = TypeVar("M", bound=Model)


#: What a baseline stands for: each task learned alone, one model of all tasks, or another way of
#: learning together.
Role = Literal["single_task", "pooled", "multi_task"]


@dataclass(frozen=True, slots=True)
class Baseline:
    """An algorithm that another is compared with.

    Parameters
    ----------
    algorithm
        Name in the registry.
    copied_params
        Parameters that it takes over as the user gave them, so that both answer the same question.
    values
        Its other parameters; what they leave out has its default.
    variant
        What tells it from another baseline of the same algorithm and role.
    renamed_params
        Parameters that it takes over under a name of its own: that name, and the other's.
    """

    algorithm: str
    role: Role
    copied_params: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""
    renamed_params: Mapping[str, str] = field(default_factory=dict)

    def params_from(self, params: Params) -> dict[str, Any]:
        """Return its parameters, beside these of the other algorithm."""
        names = {**{name: name for name in self.copied_params}, **self.renamed_params}
        return {**{own: getattr(params, name) for own, name in names.items()}, **self.values}


class Algorithm(ABC, Generic[P, M]):
    """A way to learn several tasks together."""

    #: Short name in the API: lower case, words joined by hyphens.
    name: ClassVar[str]
    title: ClassVar[str]
    #: Two or three sentences for the user: what it learns, when to use it.
    summary: ClassVar[str]
    #: Paper, year and DOI or address.
    reference: ClassVar[str]
    needs: ClassVar[Needs]
    #: What it is compared with, to tell whether learning together helps.
    baselines: ClassVar[tuple[Baseline, ...]] = ()
    #: Parameter of which many values are learned faster one after the other than each by itself.
    path_param: ClassVar[str | None] = None
    #: Direction in which theory says that the objective moves, if it says so.
    monotone: ClassVar[Literal["up", "down"] | None] = None
    Params: type[P]
    Model: type[M]

    def parse(self, values: Mapping[str, Any], *, place: str | None = None) -> P:
        """Return the parameters in values read from JSON: lists for tuples and 1 for 1.0 are fine.

        Parameters
        ----------
        place
            Where the values come from, if not from the parameters of a job.

        Raises
        ------
        InvalidParams
            A name is unknown, or a value out of its bounds; the first of them is told.
        """
        try:
            return self.Params.model_validate_json(json.dumps(dict(values)))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            where = f"{place}: " if place else ""
            message = f"{self.name}: {where}'{field}': {first['msg']}"
            raise InvalidParams(message, field=f"{place}/{field}" if place else field) from None

    def baselines_for(self, params: P) -> tuple[Baseline, ...]:
        """Return the baselines that answer the same question as the algorithm with these."""
        del params
        return self.baselines

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit; reads no numbers."""
        del params
        self.needs.check(summaries, algorithm=self.name)

    def check_selection(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData where a fit could hold out no row to choose parameters by."""
        is_chosen = getattr(params, "selection", "given") != "given"
        if is_chosen and all(one.input == "rows" and one.n_samples == 1 for one in summaries):
            raise InvalidData(
                f"task '{summaries[0].name}' and all others have one row, which leaves none to "
                f"choose parameters by; {self.name} needs selection 'given', or more rows",
                task=summaries[0].name,
            )

    def check_held_out(self, params: P) -> None:
        """Raise InvalidParams where the rest is not a problem of its own once rows are held out."""
        del params

    @abstractmethod
    def fit(self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator) -> M:
        """Return the model learned from the tasks."""

    def fit_path(
        self, tasks: TaskSet, params: Sequence[P], *, trace: Trace, rng: np.random.Generator
    ) -> list[M]:
        """Return the model of each of some parameters, which differ in :attr:`path_param` alone.

        To the tolerance of the fit they are those of :meth:`fit`.
        """
        return [self.fit(tasks, one, trace=trace, rng=deepcopy(rng)) for one in params]

    def adapt(self, model: M, task: Task, *, trace: Trace | None = None) -> M:
        """Return the model with one more task, learned from its rows with the others frozen.

        Parameters
        ----------
        trace
            Runs every loop, as in :meth:`fit`; loops have the name of the task in theirs, so that
            several tasks can join under one trace. A new one if left out.

        Raises
        ------
        InvalidData
            The algorithm takes no new tasks, or the task is none that a fit would take.
        """
        if not self.supports_adaptation():
            raise InvalidData(f"{self.name} cannot take a new task '{task.name}' without a new fit")
        self._check_new_task(model, task)
        return self.adapt_task(model, task, trace=trace or Trace())

    def adapt_task(self, model: M, task: Task, *, trace: Trace) -> M:
        """Return what :meth:`adapt` does, for a task that has its name, needs, width and sizes."""
        raise NotImplementedError

    def supports_adaptation(self) -> bool:
        """Return whether :meth:`adapt` does something."""
        return type(self).adapt_task is not Algorithm.adapt_task

    def _check_new_task(self, model: M, task: Task) -> None:
        model.check_new_name(task.name)
        self.needs.check_task(task.summary(), algorithm=self.name)
        if self.needs.same_features:
            model.check_width_of(task)
        check_magnitudes([task])
