"""Algorithms on the wire."""

from typing import Any

from pydantic import BaseModel, Field

from algorithms.interface.algorithm import Algorithm as AnyAlgorithm


class Needs(BaseModel):
    """What an algorithm needs of its tasks."""

    same_features: bool = Field(description="Every task has the same columns.")
    target: str = Field(description="none, numbers, classes, or any: numbers or classes.")
    covariances: bool = Field(description="Covariance matrices may stand in place of rows.")
    min_samples: int = Field(description="Fewest rows in each task.")
    min_tasks: int


class Algorithm(BaseModel):
    """An algorithm and its parameters."""

    name: str
    title: str
    summary: str
    reference: str
    needs: Needs
    methods: list[str] = Field(description="What its models can do.")
    params: dict[str, Any] = Field(description="JSON Schema of the parameters.")

    @classmethod
    def describe(cls, algorithm: "AnyAlgorithm[Any, Any]") -> "Algorithm":
        """Return the wire form of an algorithm."""
        return cls(
            name=algorithm.name,
            title=algorithm.title,
            summary=algorithm.summary,
            reference=algorithm.reference,
            needs=Needs.model_validate(algorithm.needs, from_attributes=True),
            methods=list(algorithm.Model.methods()),
            params=algorithm.Params.model_json_schema(),
        )
