"""API schemas of algorithms."""

from functools import cache
from typing import Any

from pydantic import BaseModel, Field

from algorithms.interface.algorithm import Algorithm as AnyAlgorithm
from service.catalogue.families import family_of


class Needs(BaseModel):
    """Requirements of an algorithm on its tasks."""

    same_features: bool = Field(description="Whether all tasks must have the same columns.")
    target: str = Field(description="none, numbers, classes, or any (numbers or classes).")
    covariances: bool = Field(description="Whether tasks may have covariances instead of rows.")
    sparse: bool = Field(
        description="Whether rows may be sparse, with a linear kernel where there is a choice."
    )
    weights: bool = Field(description="Whether weights of rows and classes are used.")
    min_samples: int = Field(description="Minimum number of rows per task.")
    min_tasks: int = Field(description="Minimum number of tasks.")


class Algorithm(BaseModel):
    """An algorithm and its parameters."""

    name: str = Field(description="Name in job specifications.")
    title: str = Field(description="Full name.")
    summary: str = Field(description="What it learns, and when to use it.")
    question: str = Field(
        description="Question that it is the first choice for; empty for most algorithms."
    )
    family: str = Field(description="Title of its family, which shares parameters.")
    reference: str = Field(description="Publication.")
    needs: Needs = Field(description="Requirements on the tasks.")
    baselines: list[str] = Field(
        description="Names of the algorithms that `compare` compares it with; an algorithm "
        "without any cannot be compared."
    )
    methods: list[str] = Field(description="Methods of its models.")
    params: dict[str, Any] = Field(description="JSON Schema of the parameters.")

    @classmethod
    @cache
    def describe(cls, algorithm: "AnyAlgorithm[Any, Any]") -> "Algorithm":
        """Return the schema of an algorithm, which is made once."""
        return cls(
            name=algorithm.name,
            title=algorithm.title,
            summary=algorithm.summary,
            question=algorithm.question,
            family=family_of(algorithm),
            reference=algorithm.reference,
            needs=Needs.model_validate(algorithm.needs, from_attributes=True),
            baselines=list(dict.fromkeys(one.algorithm for one in algorithm.baselines)),
            methods=list(algorithm.Model.methods()),
            params=algorithm.Params.model_json_schema(),
        )
