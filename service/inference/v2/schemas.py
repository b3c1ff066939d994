"""API schemas of the Open Inference Protocol, for documentation: pydantic parses no tensors."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ServerMetadata(BaseModel):
    """Name, version and extensions of the server."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(BaseModel):
    """An input or output; a dimension of -1 depends on the request or the task."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """Inputs and outputs of a model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    properties: dict[str, Any] = Field(description="Tasks, algorithm and method of the model.")


class ModelReady(BaseModel):
    """Readiness of a model."""

    name: str
    ready: bool


class IndexEntry(BaseModel):
    """A version of a model under one of its names."""

    name: str
    version: str
    state: str
    reason: str


class ModelStatistics(BaseModel):
    """Inference statistics since the service started."""

    model_stats: list[dict[str, Any]]


class InputTensor(BaseModel):
    """An input. Its values are in `data`, row by row, or after the JSON (`binary_data_size`)."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="`rows`, or `task` with one task name per row.")
    shape: list[int]
    datatype: str = Field(description="FP16 to FP64, INT8 to INT64, UINT8 to UINT64, or BYTES.")
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: list[Any] | None = None


class OutputName(BaseModel):
    """A requested output."""

    model_config = ConfigDict(extra="forbid")

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


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
        description="`task`: task of all rows; `binary_data_output`: whether outputs are binary.",
    )
    inputs: list[InputTensor]
    outputs: list[OutputName] = Field(
        default_factory=list, description="Requested outputs; default: all."
    )


class OutputTensor(BaseModel):
    """An output."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = None
    data: list[Any] | None = None


class InferResponse(BaseModel):
    """Outputs of a model."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]
