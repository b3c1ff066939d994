"""Exit codes of the command by kind of failure."""

from enum import IntEnum
from typing import Final

from sibling import JobFailed, ServiceError, ServiceUnreachable


class ExitCode(IntEnum):
    """Exit codes; shells use codes from 128."""

    SUCCESS = 0
    ERROR = 1
    USAGE = 2
    UNREACHABLE = 3
    FORBIDDEN = 4
    NOT_FOUND = 5
    REJECTED = 6
    JOB_FAILED = 7
    UNAVAILABLE = 8
    INTERRUPTED = 130


MEANINGS: Final = {
    ExitCode.SUCCESS: "success",
    ExitCode.ERROR: "another error, such as a missing file or an invalid setting",
    ExitCode.USAGE: "wrong usage: an unknown command, option or value",
    ExitCode.UNREACHABLE: "the service cannot be reached",
    ExitCode.FORBIDDEN: "the API key is missing, invalid, or lacks a scope",
    ExitCode.NOT_FOUND: "the dataset, job or model does not exist",
    ExitCode.REJECTED: "the service rejects the request or the data",
    ExitCode.JOB_FAILED: "the job failed, timed out or was cancelled",
    ExitCode.UNAVAILABLE: "the service is overloaded or failed; try again later",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
}
_OF_STATUS: Final = {
    401: ExitCode.FORBIDDEN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
    429: ExitCode.UNAVAILABLE,
}
_SERVER_ERROR: Final = 500


def exit_code(error: Exception) -> ExitCode:
    """Return the exit code of an error."""
    if isinstance(error, ServiceUnreachable):
        return ExitCode.UNREACHABLE
    if isinstance(error, JobFailed):
        return ExitCode.JOB_FAILED
    if isinstance(error, ServiceError):
        other = ExitCode.UNAVAILABLE if error.status >= _SERVER_ERROR else ExitCode.REJECTED
        return _OF_STATUS.get(error.status, other)
    return ExitCode.ERROR
