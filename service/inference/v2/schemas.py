"""API schemas of the Open Inference Protocol, for documentation: pydantic parses no tensors."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ServerMetadata(BaseModel):
    """Name, version and extensions of the server."""

    name: str = Field(description="Server name.")
    version: str = Field(description="Version of the service.")
    extensions: list[str] = Field(description="Supported extensions of the protocol.")


class TensorMetadata(BaseModel):
    """An input or output; a dimension of -1 depends on the request or the task."""

    name: str = Field(description="Tensor name.")
    datatype: str = Field(description="Datatype of the values, such as FP64 or BYTES.")
    shape: list[int] = Field(description="Shape; -1 for dimensions that vary.")


class ModelMetadata(BaseModel):
    """Inputs and outputs of a model."""

    name: str = Field(description="Model name.")
    versions: list[str] = Field(description="Version numbers.")
    platform: str = Field(description="Implementation of the model.")
    inputs: list[TensorMetadata] = Field(description="Input tensors.")
    outputs: list[TensorMetadata] = Field(description="Output tensors.")
    properties: dict[str, Any] = Field(description="Tasks, algorithm and method of the model.")


class ModelReady(BaseModel):
    """Readiness of a model."""

    name: str = Field(description="Model name.")
    ready: bool = Field(description="Whether the model can be called.")


class IndexEntry(BaseModel):
    """A version of a model under one of its names."""

    name: str = Field(description="Model name, with an alias or a method.")
    version: str = Field(description="Version number.")
    state: str = Field(
        description="READY; UNAVAILABLE if this process could not load it the last time."
    )
    reason: str = Field(description="Why it is unavailable; empty if it is ready.")


class ModelStatistics(BaseModel):
    """Inference statistics since the service started."""

    model_stats: list[dict[str, Any]] = Field(
        description="Statistics by model, version and method, in the format of Triton."
    )


class InputTensor(BaseModel):
    """An input. Its values are in `data`, row by row, or after the JSON (`binary_data_size`)."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="`rows`, or `task` with one task name per row.")
    shape: list[int] = Field(description="Shape, as sizes of the dimensions.")
    datatype: str = Field(description="FP16 to FP64, INT8 to INT64, UINT8 to UINT64, or BYTES.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="`binary_data_size`: number of bytes of binary values."
    )
    data: list[Any] | None = Field(None, description="The values; omitted if they are binary.")


class OutputName(BaseModel):
    """A requested output."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Name of the output.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="`binary_data`: whether this output is binary."
    )


class InferBody(BaseModel):
    """Rows to apply a model to."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    id: str | None = Field(None, description="Returned in the response.")
    model_name: str | None = Field(None, description="Optional; must equal the name in the URL.")
    model_version: str | None = Field(
        None, description="Optional; must equal the version in the URL."
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="`task`: task of all rows; `level`: level of intervals and sets; `new_tasks`: "
        "`common` to answer for tasks that the model was not trained on by what its tasks have in "
        "common; `binary_data_output`: whether outputs are binary.",
    )
    inputs: list[InputTensor] = Field(
        description="Input tensors: the rows, and optionally their tasks."
    )
    outputs: list[OutputName] = Field(
        default_factory=list, description="Requested outputs; default: all."
    )


class OutputTensor(BaseModel):
    """An output."""

    name: str = Field(description="Tensor name.")
    datatype: str = Field(description="Datatype of the values, such as FP64 or BYTES.")
    shape: list[int] = Field(description="Shape, as sizes of the dimensions.")
    parameters: dict[str, Any] | None = Field(
        None, description="`binary_data_size`: number of bytes of binary values."
    )
    data: list[Any] | None = Field(None, description="The values; null if they are binary.")


class InferResponse(BaseModel):
    """Outputs of a model."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str = Field(description="Model name of the request.")
    model_version: str = Field(description="Version number that was applied.")
    id: str | None = Field(None, description="Id of the request, if it had one.")
    parameters: dict[str, Any] | None = Field(
        None,
        description="`new_tasks`: tasks that the model was not trained on, for which its common "
        "part answered: percent-encoded names with commas between them, `+N` for N more of many.",
    )
    outputs: list[OutputTensor] = Field(description="Output tensors.")
