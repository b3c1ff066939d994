"""The interface of all algorithms, checked by the contract tests (``test_contract.py``).

Algorithms of other installed packages have it as well; :func:`load_extensions` finds them.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from algorithms.interface.classes import complete_classes
from algorithms.interface.errors import InvalidData, InvalidParams, explain_unknown
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs, refuse_sparse_adaptation
from algorithms.interface.params import Params
from algorithms.interface.tasks import TargetKind, Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.work import MemoryEstimate, WorkEstimate, estimate_passes, estimate_rows

P = TypeVar("P", bound=Params)
M = TypeVar("M", bound=Model)

#: Entry points of algorithms of other packages.
GROUP: Final = "sibling.algorithms"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
#: Role of a baseline: each task alone, one model for the rows of all tasks, or another multi-task
#: method.
Role = Literal["single_task", "pooled", "multi_task"]


@dataclass(frozen=True, slots=True)
class Baseline:
    """An algorithm that another is compared with.

    Parameters
    ----------
    algorithm
        Name in the registry.
    copied_params
        Parameters whose values are copied from the compared algorithm, so that both solve the same
        problem.
    values
        Values of other parameters; the rest have their defaults.
    variant
        A label that distinguishes baselines of the same algorithm and role.
    renamed_params
        Parameters that are copied from a parameter of another name: ``{name: name there}``.
    """

    algorithm: str
    role: Role
    copied_params: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""
    renamed_params: Mapping[str, str] = field(default_factory=dict)

    def params_from(self, params: Params) -> dict[str, Any]:
        """Return the baseline's parameter values, given the compared algorithm's parameters."""
        names = {**{name: name for name in self.copied_params}, **self.renamed_params}
        return {
            **{own_name: getattr(params, name) for own_name, name in names.items()},
            **self.values,
        }


@dataclass(frozen=True, slots=True, eq=False)
class PreparedFold(Generic[P, M]):
    """Training rows that are prepared for the fits of several candidates, and held-out rows.

    Parameters
    ----------
    fit
        Returns the model of a candidate.
    test
        The held-out rows, in the coordinates that the models take.
    has_warm_starts
        Whether a fit starts from the previous fit, so that the order of the candidates matters.
    """

    fit: Callable[[P, Trace], M]
    test: TaskSet
    has_warm_starts: bool = False


class Algorithm(ABC, Generic[P, M]):
    """A training method for a set of tasks."""

    #: Short name in the API: lower case, words joined by hyphens.
    name: str
    title: str
    #: Two or three sentences for the user: what it learns, when to use it.
    summary: str
    #: Question that it is the first choice for; empty for most.
    question: str = ""
    #: Paper, year and DOI or address.
    reference: str
    needs: Needs
    #: How it learns the tasks. Ignored if it has a parameter ``form`` ('task' or 'pooled').
    role: Role = "multi_task"
    #: Baselines that show whether learning together helps.
    baselines: tuple[Baseline, ...] = ()
    #: Whether it fits other algorithms, which a choice among all algorithms compares themselves.
    is_combined: ClassVar[bool] = False
    #: Parameter whose values are fitted faster along a path with warm starts than separately.
    path_param: str | None = None
    #: Direction in which the objective provably moves; None if it is not monotone.
    monotone: Literal["up", "down"] | None = None
    Params: type[P]
    Model: type[M]

    def parse(self, values: Mapping[str, Any], *, place: str | None = None) -> P:
        """Return parameters parsed from JSON values; lists for tuples and 1 for 1.0 are allowed.

        Parameters
        ----------
        place
            Where the values come from, if not from the parameters of a job.

        Raises
        ------
        InvalidParams
            A name is unknown, or a value is out of bounds; the message names the first.
        """
        try:
            return self.Params.model_validate_json(json.dumps(dict(values)))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            where = f"{place}: " if place else ""
            problem = f"'{field}': {first['msg']}"
            if first["type"] == "extra_forbidden":
                problem = explain_unknown(field, self.Params.model_fields, what="parameter")
            message = f"{self.name}: {where}{problem}"
            raise InvalidParams(message, field=f"{place}/{field}" if place else field) from None

    def baselines_for(self, params: P) -> tuple[Baseline, ...]:
        """Return the baselines that solve the same problem as the algorithm with ``params``."""
        del params
        return self.baselines

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData or InvalidParams if the algorithm cannot be fitted to tasks like these.

        It sees the shapes of the tasks only, not the numbers.
        """
        del params
        self.needs.check(summaries, algorithm=self.name)

    def memory(self, summaries: Sequence[TaskSummary], params: P) -> MemoryEstimate:
        """Return the expected peak memory of a fit of tasks like these, which passed :meth:`check`.

        Algorithms whose memory does not grow with the rows alone override it.
        """
        del params
        return estimate_rows(summaries)

    def work(self, summaries: Sequence[TaskSummary], params: P) -> WorkEstimate:
        """Return the expected work of a fit of tasks like these, which passed :meth:`check`.

        Algorithms that do more than some passes over the rows override it.
        """
        del params
        return estimate_passes(summaries)

    def check_selection(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData if parameters are to be selected, but no row can be held out."""
        selection = getattr(params, "selection", "cv" if self.is_combined else "given")
        if selection == "given" or any(summary.input != "rows" for summary in summaries):
            return
        first = summaries[0].name
        if all(summary.n_samples == 1 for summary in summaries):
            subject = f"task '{first}' has"
            if len(summaries) > 1:
                subject = f"task '{first}' and all others have"
            reason = f"{subject} only one row"
        elif all(summary.n_units == 1 for summary in summaries) or (
            # folds of cross-validation leave a row of each class to train on
            selection == "cv"
            and self.needs.target != "none"
            and all(summary.n_divisible == 0 for summary in summaries)
        ):
            reason = (
                "each task has one row, one row per class, or rows that must stay together (with "
                "the same values, or of one group)"
            )
        else:
            return
        selected, remedy = f"parameters of {self.name}", "use selection 'given'"
        if self.is_combined:
            selected, remedy = "among methods", "use one of them"
        raise InvalidData(
            f"{reason}, so no row can be held out to select {selected}; add rows, or {remedy}",
            task=first,
        )

    def check_held_out(self, params: P) -> None:
        """Raise InvalidParams if the algorithm cannot be fitted to a part of the rows."""
        del params

    def methods_for(self, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods of models for a task with the given kind of targets."""
        return self.Model.methods_for(target)

    def has_common_part(self, params: P) -> bool:
        """Return whether models can answer for tasks that they were not trained on.

        Those of pooled rows can. Others override it, with :meth:`Model.for_new_tasks`.
        """
        is_pooled = getattr(params, "form", None) == "pooled"
        return is_pooled and "predict" in self.Model.methods()

    @abstractmethod
    def fit(self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator) -> M:
        """Return the model trained on the tasks.

        Parameters
        ----------
        trace
            Records the iterations, and can interrupt or resume the fit.
        rng
            Source of all random numbers of the fit.
        """

    def fit_path(
        self, tasks: TaskSet, params: Sequence[P], *, trace: Trace, rng: np.random.Generator
    ) -> list[M]:
        """Return one model for each of ``params``, which differ in :attr:`path_param` alone.

        They equal the models of :meth:`fit` up to the tolerance of the fit.
        """
        return [self.fit(tasks, candidate, trace=trace, rng=deepcopy(rng)) for candidate in params]

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: P, *, rng: np.random.Generator
    ) -> PreparedFold[P, M]:
        """Return a fold for the fits of candidates, with all that they have in common.

        Predictions for the held-out rows equal the predictions of the models of :meth:`fit` up to
        the tolerance of the fit.

        Parameters
        ----------
        params
            The first candidate; others differ in the parameters of :attr:`Params.GRIDS` alone.
        rng
            Random numbers, the same for every candidate.
        """
        del params
        return PreparedFold(
            lambda candidate, trace: self.fit(train, candidate, trace=trace, rng=deepcopy(rng)),
            test,
        )

    def final_objective(self, params: P, trace: Trace) -> float | None:
        """Return the objective of all tasks together at the end of a fit.

        None if each task has its own objective, or the last loop did not fit the model.
        """
        del params
        return trace.objective

    def adapt(self, model: M, task: Task, *, trace: Trace | None = None) -> M:
        """Return the model with a new task, trained on its rows while the other tasks stay fixed.

        Parameters
        ----------
        trace
            Runs every loop, as in :meth:`fit`. The names of the loops include the name of the task,
            so that one trace can run several adaptations. Default: a new trace.

        Raises
        ------
        InvalidData
            The algorithm does not support adaptation, or the task does not meet the requirements of
            the algorithm or the model.
        """
        if not self.supports_adaptation():
            raise InvalidData(
                f"models of {self.name} cannot be adapted to a new task such as '{task.name}'; "
                "train a new model with all tasks"
            )
        task = _with_classes_of(model, task)
        self._check_new_task(model, task)
        return self.adapt_task(model, task, trace=trace or Trace())

    def adapt_task(self, model: M, task: Task, *, trace: Trace) -> M:
        """Return the adapted model; subclasses implement it for tasks that :meth:`adapt` checked.

        :meth:`adapt` has checked the task's name, needs, width and magnitudes.
        """
        raise NotImplementedError

    def supports_adaptation(self) -> bool:
        """Return whether the algorithm implements :meth:`adapt_task`."""
        return type(self).adapt_task is not Algorithm.adapt_task

    def _check_new_task(self, model: M, task: Task) -> None:
        model.check_new_name(task.name)
        refuse_sparse_adaptation([task.summary()], algorithm=self.name)
        self.needs.check_task(task.summary(), algorithm=self.name)
        if self.needs.same_features:
            model.check_width_of(task)
        check_magnitudes([task])


def _with_classes_of(model: Model, task: Task) -> Task:
    """Return a new task, which, if it has a single class, also has those of the model's tasks."""
    if task.target != "classes":
        return task
    own = tuple(np.unique(np.asarray(task.y)).tolist())
    known = [tuple(model.classes(name)) for name in model.tasks]
    return replace(task, classes=complete_classes([own, *known])[0])


class InvalidExtension(ValueError):
    """Raised when an installed package registers something that is not a usable algorithm."""


@dataclass(frozen=True, slots=True)
class Extension:
    """An algorithm of another package.

    Parameters
    ----------
    package
        Name of the installed package.
    """

    algorithm: Algorithm[Any, Any]
    package: str
    version: str


def load_extensions(taken: Collection[str]) -> dict[str, Extension]:
    """Return the algorithms of other packages, which register them by an entry point, by name.

    In the ``pyproject.toml`` of such a package::

        [project.entry-points."sibling.algorithms"]
        shrunken-means = "sibling_shrunken_means:ShrunkenMeans"

    The entry point has the name of the algorithm, and its object is the class, a subclass of
    :class:`Algorithm`.

    Parameters
    ----------
    taken
        Names that they must not have.

    Raises
    ------
    InvalidExtension
        An entry point cannot be loaded, is not an algorithm, or has another or a taken name.
    """
    extensions: dict[str, Extension] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name in {*taken, *extensions}:
            raise _invalid(entry, "the name is taken; the package must choose another one")
        package, version = _origin(entry)
        extensions[entry.name] = Extension(_load(entry), package, version)
    return extensions


def _load(entry: EntryPoint) -> Algorithm[Any, Any]:
    if not _NAME.fullmatch(entry.name):
        raise _invalid(entry, "names have lower-case letters and digits, in words joined by '-'")
    try:
        loaded = entry.load()
    except Exception as error:
        raise _invalid(entry, f"'{entry.value}' cannot be imported: {error!r}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Algorithm)):
        raise _invalid(entry, f"'{entry.value}' is not a subclass of Algorithm")
    try:
        algorithm: Algorithm[Any, Any] = loaded()
    except TypeError as error:  # a method of the interface is missing
        raise _invalid(entry, f"'{entry.value}' cannot be created: {error}") from error
    if algorithm.name != entry.name:
        raise _invalid(entry, f"the algorithm calls itself '{algorithm.name}'")
    return algorithm


def _origin(entry: EntryPoint) -> tuple[str, str]:
    """Return the name and the version of the package of an entry point."""
    return ("?", "?") if entry.dist is None else (entry.dist.name, entry.dist.version)


def _invalid(entry: EntryPoint, problem: str) -> InvalidExtension:
    package, version = _origin(entry)
    return InvalidExtension(
        f"the algorithm '{entry.name}' of the installed package {package} {version} cannot be "
        f"used: {problem}. Update the package or uninstall it."
    )
