"""The methods of the race, in the order in which they are fitted.

They cover what tasks can have in common, from nothing to everything, with lines, curves and trees.
Each selects its own parameters from its training rows, by leave-one-out errors, marginal
likelihood, or a cross-validation.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from algorithms.baselines.boosted_trees import BoostedTrees
from algorithms.baselines.constant import Constant
from algorithms.baselines.linear import KernelRidge, LogisticRegression, MeanRegularised, Ridge
from algorithms.baselines.mixed_model import MixedModel
from algorithms.gp import GP
from algorithms.gp.model import GPModel
from algorithms.interface.algorithm import Algorithm, Role
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.mtda import MTDA
from algorithms.mtfl import MTFL
from algorithms.wrappers.by_parts.algorithm import ByParts, each_task, groups_of_columns
from algorithms.wrappers.dense import Dense, is_small

Algo = Algorithm[Any, Any]

#: With more rows, the folds of a Gaussian process start from the fit of all rows; so many steps
#: suffice. Without any, held-out rows would have been used.
WARM_ROWS: Final = 300
WARM_STEPS: Final = 5
#: With more rows, each task has a kernel of its own, and selects its own strength: the kernel of
#: all rows, which lets tasks select a common one, takes O(n³).
MAX_KERNEL_ROWS: Final = 2_000
#: Words for the values of a parameter ``form``, and what they mean.
_FORMS: Final = {"task": "per task", "pooled": "pooled"}
_ROLES: Final[dict[str, Role]] = {"task": "single_task", "pooled": "pooled"}
#: Parameters that a cross-validation of all rows has chosen, and folds keep: one number of a few.
#: By algorithm: name of the parameter, and of the result.
_KEPT: Final = {
    "boosted-trees": ("n_trees", "n_trees"),
    "mtfl": ("gamma", "gamma_given"),
    "logistic-regression": ("gamma", "gamma"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A method with the parameters that differ from its defaults.

    Parameters
    ----------
    variant
        What distinguishes it from others of the same algorithm and form.
    """

    algorithm: Algo
    variant: str
    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Unique name in the race."""
        together = ALGORITHMS.get(self.algorithm.name, self.algorithm).role
        is_apart = self.role == "single_task" != together
        form = "task" if is_apart else self.values.get("form", "")
        return " ".join(filter(None, (self.algorithm.name, _FORMS.get(form), self.variant)))

    @property
    def role(self) -> Role:
        """How it learns the tasks."""
        return _ROLES.get(getattr(self.params, "form", ""), self.algorithm.role)

    @property
    def has_common_part(self) -> bool:
        """Whether its models can answer for tasks that they were not trained on."""
        return bool(self.algorithm.has_common_part(self.params))

    def names(self) -> dict[str, str]:
        """Return the keys that identify it in a report."""
        return {"algorithm": self.algorithm.name, "role": self.role, "variant": self.variant}

    @property
    def params(self) -> Any:
        """Its parameters."""
        return self.algorithm.parse(self.values)

    def fit(self, tasks: TaskSet, *, trace: Trace, seed: int) -> Model:
        """Return its model of all rows."""
        self.algorithm.check(tasks.summaries(), self.params)
        model: Model = self.algorithm.fit(tasks, self.params, trace=trace, rng=_random(seed))
        return model

    def refit(self, whole: Model, train: TaskSet, *, trace: Trace, seed: int) -> Model:
        """Return its model of the training rows of a fold, given the model of all rows."""
        self.algorithm.check(train.summaries(), self.params)
        if isinstance(whole, GPModel) and len(whole.X) > WARM_ROWS:
            gp = GP()
            params = gp.parse({**self.values, "max_iter": WARM_STEPS})
            return gp.refit(whole, train, params, trace=trace, rng=_random(seed))
        kept = _KEPT.get(self.algorithm.name)
        values = dict(self.values)
        found = None if kept is None else whole.header().get("fit_info", {}).get(kept[1])
        if kept is not None and isinstance(found, int | float):  # and not one of each task
            values |= {"selection": "given", kept[0]: found}
        params = self.algorithm.parse(values)
        model: Model = self.algorithm.fit(train, params, trace=trace, rng=_random(seed))
        return model


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def contenders_for(tasks: Sequence[TaskSummary]) -> list[Contender]:
    """Return the contenders of the race for tasks.

    If tasks have different columns, each is fitted to the tasks of each set of columns. If no two
    tasks have the same, they are those that can learn a task alone, in different ways.
    """
    kind = "classes" if tasks[0].target == "classes" else "numbers"
    groups = groups_of_columns(tasks)
    if len(groups) == 1:
        return [_for_sparse(_for_many_rows(one, tasks), tasks) for one in CONTENDERS[kind]]
    is_alone = len(groups) == len(tasks)
    own = [*_ALONE[kind]] if is_alone else [*CONTENDERS[kind]]
    own = [
        replace(one, algorithm=ByParts(one.algorithm, "single_task" if is_alone else one.role))
        if one.algorithm.needs.same_features or one.role == "pooled"
        else one
        for one in own
    ]
    return [_for_sparse(one, tasks) for one in own]


def _for_many_rows(contender: Contender, tasks: Sequence[TaskSummary]) -> Contender:
    """Return a contender that takes many rows in all: by a kernel of each task."""
    is_kernel = contender.algorithm.name == KernelRidge.name
    if not is_kernel or sum(task.n_samples for task in tasks) <= MAX_KERNEL_ROWS:
        return contender
    return replace(contender, algorithm=_KERNEL_PER_TASK)


def _for_sparse(contender: Contender, tasks: Sequence[TaskSummary]) -> Contender:
    """Return a contender that takes sparse rows, by a dense copy if that is small."""
    has_to = tasks[0].is_sparse and not contender.algorithm.needs.sparse
    if not has_to or not is_small(tasks):
        return contender
    return replace(contender, algorithm=Dense(contender.algorithm))


def contenders_of(algorithm: Algo, tasks: Sequence[TaskSummary]) -> list[Contender]:
    """Return the contenders of an algorithm: those of the race, and one for each other form.

    Each selects its own parameters, if it can. An algorithm with alternatives, such as kernels, has
    a contender for each.
    """
    own = [one for one in contenders_for(tasks) if one.algorithm.name == algorithm.name]
    known = {getattr(one.params, "form", None) for one in own}
    field = algorithm.Params.model_fields.get("form")
    allowed = getattr(field.annotation, "__args__", ()) if field is not None else ()
    forms: list[str | None] = [form for form in _FORMS if form in allowed]
    values: dict[str, Any] = {}
    if "selection" in algorithm.Params.model_fields:
        values["selection"] = algorithm.Params.INNER_SELECTION
    alternatives = algorithm.Params.ALTERNATIVES
    for form, chosen in itertools.product(
        forms or [None], itertools.product(*alternatives.values())
    ):
        if form not in known:
            of_form = {} if form is None else {"form": form}
            other = dict(zip(alternatives, chosen, strict=True))
            variant = " ".join(map(str, chosen))
            another = Contender(algorithm, variant, {**values, **of_form, **other})
            own.append(_for_sparse(another, tasks))
    return own


def _contender(algorithm: Algo, variant: str = "", **values: Any) -> Contender:
    return Contender(algorithm, variant, values)


#: A Gaussian process of each task: without it, what curves gain would count as a gain of sharing.
_GP_PER_TASK: Final = ByParts(GP(), "single_task", parts_of=each_task)
_KERNEL_PER_TASK: Final = ByParts(KernelRidge(), "single_task", parts_of=each_task)

#: For numbers. Of two Gaussian processes one learns logarithms, if all targets are above 0.
_NUMBERS: Final = (
    _contender(Constant(), form="task"),
    _contender(Constant(), form="pooled"),
    _contender(Ridge(), form="pooled"),
    _contender(MeanRegularised()),
    _contender(Ridge(), form="task"),
    _contender(GP(), logarithms="never"),
    _contender(GP(), "of logarithms", logarithms="always"),
    _contender(KernelRidge(), form="task"),
    _contender(_GP_PER_TASK, logarithms="never"),
    _contender(_GP_PER_TASK, "of logarithms", logarithms="always"),
    _contender(BoostedTrees()),
    _contender(MTFL()),
    _contender(MixedModel()),
)
_CLASSES: Final = (
    _contender(Constant(), form="task"),
    _contender(Constant(), form="pooled"),
    _contender(LogisticRegression(), form="pooled"),
    _contender(MeanRegularised()),
    _contender(Ridge(), form="task"),
    _contender(GP()),
    _contender(KernelRidge(), form="task"),
    _contender(_GP_PER_TASK),
    _contender(BoostedTrees()),
    _contender(MTFL()),
    _contender(MixedModel()),
)
#: All, by the kind of the targets.
CONTENDERS: Final = {"numbers": _NUMBERS, "classes": _CLASSES}
#: For tasks of which each has other columns, by the kind of the targets.
_ALONE: Final = {
    "numbers": (
        _contender(Constant(), form="task"),
        _contender(Ridge(), form="task"),
        _contender(KernelRidge(), form="task"),
        _contender(GP(), logarithms="never"),
        _contender(GP(), "of logarithms", logarithms="always"),
        _contender(BoostedTrees(), form="task"),
    ),
    "classes": (
        _contender(Constant(), form="task"),
        _contender(LogisticRegression(), form="task"),
        _contender(Ridge(), form="task"),
        _contender(KernelRidge(), form="task"),
        _contender(GP()),
        _contender(BoostedTrees(), form="task"),
        _contender(MTDA()),
    ),
}
#: Algorithms of the members of a model, by name.
ALGORITHMS: Final = {
    one.algorithm.name: one.algorithm
    for one in itertools.chain(*CONTENDERS.values(), *_ALONE.values())
    if not isinstance(one.algorithm, ByParts)
}
