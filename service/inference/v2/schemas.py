"""The protocol on the wire, for the documentation: bulk numbers are read without pydantic."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ServerMetadata(BaseModel):
    """What the server is."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(BaseModel):
    """An input or output; -1 stands for a number that depends on the call or its task."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    properties: dict[str, Any] = Field(description="Its tasks, and the method that it calls.")


class ModelReady(BaseModel):
    """Whether a model can be called."""

    name: str
    ready: bool


class IndexEntry(BaseModel):
    """A version of a model that can be called."""

    name: str
    version: str
    state: str
    reason: str


class ModelStatistics(BaseModel):
    """How the calls of models went, since the service started."""

    model_stats: list[dict[str, Any]]


class InputTensor(BaseModel):
    """An input: its values in `data`, row by row, or after the JSON (`binary_data_size`)."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="`rows`, or `task`: one name for each row.")
    shape: list[int]
    datatype: str = Field(description="FP16 to FP64, INT8 to INT64, UINT8 to UINT64; BYTES.")
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: list[Any] | None = None


class OutputName(BaseModel):
    """An output that is requested."""

    model_config = ConfigDict(extra="forbid")

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class InferBody(BaseModel):
    """Rows for a model."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    id: str | None = Field(None, description="Given back in the answer.")
    model_name: str | None = Field(None, description="As in the address, where it is repeated.")
    model_version: str | None = Field(None, description="As in the address.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="`task` of all rows; `binary_data_output`."
    )
    inputs: list[InputTensor]
    outputs: list[OutputName] = Field(default_factory=list, description="None: all outputs.")


class OutputTensor(BaseModel):
    """An output."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = None
    data: list[Any] | None = None


class InferResponse(BaseModel):
    """What the model made of the rows."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]
