"""The client: ``from service.client import Client``. The command line and the demo use it too."""

from service.client.client import Client, Dataset
from service.client.errors import JobFailed, ServiceError
from service.client.job import JobHandle
from service.client.model import RemoteModel

__all__ = ["Client", "Dataset", "JobFailed", "JobHandle", "RemoteModel", "ServiceError"]
