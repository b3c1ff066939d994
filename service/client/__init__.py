"""Python client of the service, which the command line and the demo use too."""

from service.client.client import Client, Dataset
from service.client.errors import JobFailed, ServiceError
from service.client.job import InferenceJob, RemoteJob, TrainingJob
from service.client.model import RemoteModel
from service.client.outputs import RemoteOutputs

__all__ = [
    "Client",
    "Dataset",
    "InferenceJob",
    "JobFailed",
    "RemoteJob",
    "RemoteModel",
    "RemoteOutputs",
    "ServiceError",
    "TrainingJob",
]
