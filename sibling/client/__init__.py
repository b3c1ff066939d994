"""Python client of the service, which the command line and the demo use too."""

from algorithms.interface.new_tasks import NewTasksWarning
from algorithms.interface.unknown_categories import UnknownCategoriesWarning
from sibling.client.client import AsyncClient, Client
from sibling.client.datasets import Dataset
from sibling.client.errors import JobFailed, ServiceError, ServiceUnreachable
from sibling.client.job import InferenceJob, RemoteJob, TrainingJob
from sibling.client.model import RemoteModel
from sibling.client.monitor import RemoteMonitor
from sibling.client.outputs import RemoteOutputs
from sibling.client.renewal import RemoteRenewal

__all__ = [
    "AsyncClient",
    "Client",
    "Dataset",
    "InferenceJob",
    "JobFailed",
    "NewTasksWarning",
    "RemoteJob",
    "RemoteModel",
    "RemoteMonitor",
    "RemoteOutputs",
    "RemoteRenewal",
    "ServiceError",
    "ServiceUnreachable",
    "TrainingJob",
    "UnknownCategoriesWarning",
]
