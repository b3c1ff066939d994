"""What every algorithm promises; the contract tests run over all of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Literal, TypeVar

import numpy as np

from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import Needs, Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace

P = TypeVar("P", bound=Params)
M = TypeVar("M", bound=Model)


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
    #: Direction in which theory says that the objective moves, if it says so.
    monotone: ClassVar[Literal["up", "down"] | None] = None
    Params: type[P]
    Model: type[M]

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit; reads no numbers."""
        del params
        self.needs.check(summaries, algorithm=self.name)

    @abstractmethod
    def fit(self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator) -> M:
        """Give the model learned from the tasks."""

    def adapt(self, model: M, task: Task) -> M:
        """Give the model with one more task, learned from its rows with the others frozen."""
        del model
        raise InvalidData(f"{self.name} cannot take a new task '{task.name}' without a new fit")
