"""The client: ``from service.client import Client``. The command line and the demo use it too."""

from service.client.client import Client, Dataset
from service.client.errors import JobFailed, ServiceError
from service.client.job import InferenceHandle, JobHandle
from service.client.model import RemoteModel
from service.client.outputs import RemoteOutputs

__all__ = [
    "Client",
    "Dataset",
    "InferenceHandle",
    "JobFailed",
    "JobHandle",
    "RemoteModel",
    "RemoteOutputs",
    "ServiceError",
]
