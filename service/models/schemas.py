"""API schemas of models."""

from datetime import datetime
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from algorithms.evaluation.scores import importance
from algorithms.interface import relations
from service.http.schemas import WireModel
from service.models.alias_store import NamedAlias
from service.models.store import NamedVersion, ServableVersion


class Lineage(BaseModel):
    """Origin of a model: enough to reproduce it."""

    job_id: str = Field(description="Id of the job that trained it.")
    base_id: str | None = Field(description="Id of the version that it was adapted from.")
    dataset_id: str = Field(description="Id of the training dataset.")
    dataset_sha256: str = Field(description="SHA-256 of the tasks in that dataset.")
    algorithm: str = Field(description="Algorithm name.")
    params: dict[str, Any] = Field(description="Parameters of the algorithm, with defaults.")
    seed: int = Field(description="Random seed of the fit.")
    software: dict[str, str] = Field(
        description="Versions of the software, and the number of threads."
    )


class ModelScore(BaseModel):
    """Score that an automatic choice expects on new rows."""

    metric: str = Field(description="Metric, such as `rmse`.")
    value: float = Field(description="Mean over the splits of the choice.")


class Model(BaseModel):
    """A version of a model."""

    id: str = Field(description="Id of this version.")
    name: str = Field(description="Model name.")
    version: int = Field(description="Version number, from 1.")
    aliases: list[str] = Field(description="Aliases that point to this version.")
    is_challenger: bool = Field(
        description="Whether a renewal trained it and no alias has moved to it: then it is the "
        "latest version only where no other version is left."
    )
    algorithm: str = Field(description="Algorithm name.")
    methods: list[str] = Field(description="Methods, such as transform and predict.")
    tasks: list[str] = Field(description="Names of the tasks that it was trained on.")
    task_column: str = Field(
        description="Column with the task of each row in tables and records, named as in the "
        "training table."
    )
    new_tasks: str = Field(
        description="What calls do about tasks that it was not trained on, unless they say so "
        "themselves: `refuse` or `common`."
    )
    classes: dict[str, list[str | int]] = Field(
        description="Labels by task, in the order of output columns that are classes; empty for a "
        "model without classes."
    )
    metrics: dict[str, dict[str, float | None]] = Field(
        description="Scores on the training rows, `{metric: {task: value}}`; null where a score "
        "is not a finite number."
    )
    expected_score: ModelScore | None = Field(
        description="Expected score on new rows, of an automatic choice; null for others."
    )
    warnings: list[str] = Field(description="Warnings about the data, the parameters and the fit.")
    preparation: dict[str, Any] | None = Field(
        description="Options, raw columns and prepared columns; null for a model of plain numbers."
    )
    stop_reason: str | None = Field(
        description="converged, stalled or max_iter; null if the fit is a race of methods."
    )
    lineage: Lineage = Field(description="Job, dataset and parameters of the training.")
    artifact_sha256: str = Field(description="SHA-256 of the artifact.")
    artifact_bytes: int = Field(description="Size of the artifact, in bytes.")
    created_at: datetime = Field(description="Time of publication.")

    @classmethod
    def from_row(cls, version: NamedVersion) -> "Model":
        """Return the schema of a version."""
        row, expected = version.row, version.expected
        return cls(
            id=row.id,
            name=version.name,
            version=row.version,
            aliases=list(version.aliases),
            is_challenger=version.row.is_challenger,
            algorithm=row.algorithm,
            methods=row.methods,
            tasks=row.tasks,
            task_column=row.task_column,
            new_tasks=row.new_tasks,
            classes=row.classes,
            metrics=row.metrics,
            expected_score=expected and ModelScore(metric=expected[0], value=expected[1]),
            warnings=row.warnings,
            preparation=row.preparation,
            stop_reason=row.history["stop_reason"],
            lineage=Lineage(
                job_id=row.job_id,
                base_id=row.base_id,
                dataset_id=row.dataset_id,
                dataset_sha256=row.dataset_sha256,
                algorithm=row.algorithm,
                params=row.params,
                seed=row.seed,
                software=row.software,
            ),
            artifact_sha256=row.artifact_sha256,
            artifact_bytes=row.artifact_bytes,
            created_at=row.created_at,
        )


class AliasSpec(WireModel):
    """Target of an alias."""

    version: int = Field(ge=1, lt=2**31, description="Version number of the model.")


class Alias(BaseModel):
    """A name of a model version, used as NAME@ALIAS, that can move to another version."""

    model: str = Field(description="Model name.")
    alias: str = Field(description="Name of the alias.")
    version: int = Field(description="Number of the version that it points to.")
    version_id: str = Field(description="Id of that version.")
    moved_at: datetime = Field(description="Time at which the alias was created or last moved.")

    @classmethod
    def from_row(cls, model: str, found: NamedAlias) -> "Alias":
        """Return the schema of an alias."""
        row = found.row
        return cls(
            model=model,
            alias=row.alias,
            version=found.version,
            version_id=row.version_id,
            moved_at=row.moved_at,
        )


class Steps(BaseModel):
    """Steps of a fit, by column; long fits keep every second, fourth, ... step."""

    loop: list[str] = Field(description="Name of the loop, by step.")
    iteration: list[int] = Field(description="Iteration within the loop, by step.")
    objective: list[float | None] = Field(description="Objective, by step; null where unknown.")
    residual: list[float | None] = Field(
        description="Quantity that the iteration reduces to zero, by step; null where unknown."
    )
    elapsed_s: list[float] = Field(description="Seconds since the start of the fit, by step.")


class History(BaseModel):
    """Training history of a model."""

    stop_reason: str | None = Field(
        description="converged, stalled or max_iter; null for a race, or a fit without iterations."
    )
    stop_reasons: dict[str, str] = Field(description="Stop reason of each loop.")
    fit_s: float = Field(description="Duration of the fit, in seconds.")
    peak_memory_mb: float = Field(description="Peak resident memory of the training process.")
    steps: Steps = Field(description="Recorded steps of the fit.")


class OfVersion(BaseModel):
    """A result that belongs to a version of a model."""

    model: str = Field(description="Model name.")
    version: int = Field(description="Version number.")


class Importance(importance.Importance, OfVersion):
    """Importance of the columns of a model, the most important one first.

    It is computed from rows that the model was trained with.
    """

    @classmethod
    def of(cls, version: NamedVersion, stored: dict[str, Any]) -> "Importance":
        """Return the schema of the stored importance of a version."""
        return cls(model=version.name, version=version.row.version, **stored)


class Relations(OfVersion):
    """Relations between the tasks of a model."""

    sentence: str = Field(description="Summary of the strengths in words.")
    names: list[str] = Field(
        description="Task, or task and class, of each output, with related outputs adjacent."
    )
    strength: list[list[float]] = Field(
        description="Strength from -1 to 1 for each pair of `names`: the scaled output kernel of a "
        "kernel machine, the cosine between two linear functions, the overlap of two subspaces."
    )
    sparsity: float = Field(description="Share of pairs with an absolute strength below 0.05.")

    @classmethod
    def of(cls, served: ServableVersion, found: relations.Relations) -> "Relations":
        """Return the schema of the relations in a version."""
        order = list(found.order)
        return cls(
            model=served.name,
            version=served.version,
            sentence=found.sentence,
            names=[found.names[i] for i in order],
            strength=found.strength[np.ix_(order, order)].tolist(),
            sparsity=found.sparsity,
        )


class PlotInfo(BaseModel):
    """A plot of a model."""

    name: str = Field(description="Name of the plot in its URL.")
    title: str = Field(description="Title of the plot.")
    sentence: str = Field(description="Finding of the plot in a sentence.")
    notes: list[str] = Field(description="What the plot leaves out, and why.")
