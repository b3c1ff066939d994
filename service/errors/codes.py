"""Error codes of requests and jobs: status, title, cause and remedy of each."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """Status, title, cause and remedy of one error code."""

    status: int
    title: str
    cause: str
    remedy: str


#: Cause and remedy of every code that only the ``error`` of a job can have.
JOB_CODES: Final[dict[str, tuple[str, str]]] = {
    "diverged": (
        "The objective became infinite or NaN.",
        "Rescale the data, or increase the regularisation.",
    ),
    "invalid-artifact": (
        "The stored dataset or model is corrupt, or the model's algorithm is not installed.",
        "Upload the dataset or train the model again, or install the package of the algorithm.",
    ),
    "out-of-memory": (
        "The job used more memory than its `memory_mb`.",
        "Increase `memory_mb`, or submit less data.",
    ),
    "timed-out": ("An attempt ran longer than `timeout_s`.", "Increase `timeout_s`."),
    "cancelled": ("The owner cancelled the job.", "Submit a new job if you still need the result."),
    "base-model-deleted": (
        "The model that the job adapts or applies was deleted while the job was being submitted.",
        "Submit the job again with an existing model.",
    ),
    "worker-lost": (
        "The worker died or lost its connection in each of `max_attempts` attempts.",
        "Check the worker's host and log, then submit the job again.",
    ),
    "worker-failed": (
        "The worker could not fetch the dataset or the model, or could not run the job's process.",
        "Read the detail and the worker's log.",
    ),
    "result-not-stored": (
        "The result could not be written to the database.",
        "Free space in the database, then submit the job again.",
    ),
    "quota-exceeded": (
        "The model or the outputs exceed the stored bytes that the operator allows the owner.",
        "Delete what you no longer need, or ask the operator for more; then submit the job again.",
    ),
    "never-started": (
        "The worker pool accepted the job several times but never started it.",
        "Check the logs of the scheduler and the workers.",
    ),
    "worker-start-failed": (
        "The job's process did not start.",
        "Read the detail; check memory and process limits on the worker's host.",
    ),
    "requeued": (
        "The service or the worker was stopped, and the job went back to the queue.",
        "Nothing: the job continues by itself.",
    ),
    "worker-exited": (
        "The job's process exited unexpectedly.",
        "Read the detail, then submit the job again.",
    ),
    "crashed": (
        "A signal, such as a segmentation fault, ended the job's process.",
        "Report it as a bug, with the detail.",
    ),
    "internal-error": (
        "A bug in the service or in the algorithm.",
        "Report it with the detail, which says where it happened.",
    ),
}

#: Every code that a response can have; ``docs/reference/errors.md`` is generated from this table.
ERRORS: Final[dict[str, ErrorSpec]] = {
    "malformed-json": ErrorSpec(
        400,
        "Malformed JSON",
        "The body is not valid JSON (RFC 8259): a syntax error, NaN or Infinity, a lone "
        "surrogate, invalid UTF-8, or too many nested levels.",
        "Send valid JSON. JSON has no NaN: write null for a missing value.",
    ),
    "malformed-body": ErrorSpec(
        400,
        "Malformed body",
        "A body that is not JSON is truncated, corrupt, or not in the format of its Content-Type.",
        "Send the file again; the detail says where reading failed.",
    ),
    "bad-host": ErrorSpec(
        400,
        "Bad Host header",
        "A request of HTTP/1.1 has no header Host, or several.",
        "Send the host of the URL as Host; HTTP libraries do.",
    ),
    "invalid-page-token": ErrorSpec(
        400,
        "Invalid page token",
        "This collection has not returned this `page_token`.",
        "Use `next_page_token` of the previous page, or omit it to get the first page.",
    ),
    "unauthenticated": ErrorSpec(
        401,
        "Authentication required",
        "The request has no API key, or its key is unknown, expired or revoked.",
        "Send `Authorization: Bearer sib_...`. An operator creates keys with "
        "`sibling keys create`.",
    ),
    "forbidden": ErrorSpec(
        403,
        "Forbidden",
        "The API key is valid, but does not have the scope that the detail names.",
        "Use a key with this scope.",
    ),
    "foreign-origin": ErrorSpec(
        403,
        "Request from another site",
        "A web page of another site sent the request: its `Origin` is not this service.",
        "Send the request from a program, or ask the operator to add the host of the page to "
        "`SIBLING_ALLOWED_HOSTS`.",
    ),
    "not-found": ErrorSpec(
        404,
        "Not found",
        "The URL is wrong, or the id or name in it does not exist or belongs to another owner.",
        "Check the URL; list the collection to see its items.",
    ),
    "no-relations": ErrorSpec(
        404,
        "Model has no relations",
        "The algorithm trains tasks independently or pools them, so it has no task relations.",
        "Train with an algorithm that learns relations, such as `fmtl`, `mtfl` or `rmt-pca`.",
    ),
    "no-plot": ErrorSpec(
        404,
        "Model has no such plot",
        "There is no plot of this name, or the model has nothing to show in it.",
        "Use a plot that `GET /v1/models/{name}/plots` lists.",
    ),
    "no-importance": ErrorSpec(
        404,
        "Model has no importance of columns",
        "The model predicts no targets, was adapted, imported or trained by an earlier release, or "
        "permuting its columns would have taken too long.",
        "Train a model that predicts targets, such as `mtfl` or `boosted-trees`, on all tasks.",
    ),
    "no-report": ErrorSpec(
        404,
        "Model has no report",
        "The model was trained without a search, comparison, evaluation, automatic choice or "
        "calibration.",
        "Submit a job with `search`, `compare`, `evaluate` or `calibration`.",
    ),
    "method-not-allowed": ErrorSpec(
        405,
        "Method not allowed",
        "The URL exists, but does not support this HTTP method.",
        "Use one of the methods in the `Allow` header.",
    ),
    "not-acceptable": ErrorSpec(
        406,
        "Not acceptable",
        "`Accept` lists no format that this endpoint can return.",
        "Use one of the formats in the detail.",
    ),
    "request-timeout": ErrorSpec(
        408,
        "Request timeout",
        "The headers or the body of the request arrived too slowly: the headers as a whole, or no "
        "byte of the body for the time in the detail.",
        "Check the network, and send the request again.",
    ),
    "in-use": ErrorSpec(
        409,
        "Resource in use",
        "Another resource depends on this one: on a dataset, an unfinished job or a "
        "model; on a model version, an unfinished job, an alias, or a model adapted from it; on a "
        "job, the model version that it made, or its parent.",
        "Cancel the job, delete the model or move the alias that the detail names, then retry.",
    ),
    "offset-mismatch": ErrorSpec(
        409,
        "Wrong upload offset",
        "A part of an upload does not begin where the last one ended.",
        "Ask for Upload-Offset with HEAD, and continue there.",
    ),
    "wrong-state": ErrorSpec(
        409,
        "Not possible in this state",
        "The resource is in a state that does not allow the request: training on a dataset that "
        "is not ready, for example, cancelling a job that has finished, or deleting one that has "
        "not.",
        "Read the resource, and wait until its state allows the request; cancel a job that you "
        "want to delete.",
    ),
    "precondition-failed": ErrorSpec(
        412,
        "Precondition failed",
        "The resource has changed: the condition `If-Match` or `If-None-Match` is false for its "
        "current ETag.",
        "Read the resource again, and retry with its current ETag if you still want the change.",
    ),
    "unsupported-version": ErrorSpec(
        412,
        "Unsupported version",
        "`Tus-Resumable` names a version of the tus protocol that the service does not support.",
        "Send the version in the detail and in the header `Tus-Version`.",
    ),
    "body-too-large": ErrorSpec(
        413,
        "Body too large",
        "The body has more bytes, or more values, than the limit that the detail names.",
        "Send a smaller body, or ask the operator to raise the limit.",
    ),
    "too-many-rows": ErrorSpec(
        413,
        "Too many rows",
        "An inference request has more rows, or would return a larger array, than the operator "
        "allows.",
        "Split the rows over several requests, or run a batch inference job.",
    ),
    "unsupported-media-type": ErrorSpec(
        415,
        "Unsupported media type",
        "The endpoint does not read the format in `Content-Type`, or the bytes are in a "
        "different format. Pickle and joblib files are never read.",
        "Use one of the formats in the detail.",
    ),
    "range-not-satisfiable": ErrorSpec(
        416,
        "Range not satisfiable",
        "The header Range begins behind the end of the file.",
        "Content-Range has the size of the file: download the whole file, or what is missing.",
    ),
    "unknown-host": ErrorSpec(
        421,
        "Unknown host",
        "The `Host` header is a name under which this service does not respond. On loopback it "
        "responds to localhost, 127.0.0.1 and [::1] only, so that pages of other sites cannot use "
        "it (DNS rebinding).",
        "Use one of these names, or ask the operator to add the name to `SIBLING_ALLOWED_HOSTS`.",
    ),
    "invalid-request": ErrorSpec(
        422,
        "Invalid request",
        "A field, query parameter or header is missing, unknown or out of bounds.",
        "Correct each place in `errors`: `pointer` is a path in the body, `parameter` a query "
        "parameter or header.",
    ),
    "invalid-params": ErrorSpec(
        422,
        "Invalid algorithm parameters",
        "A parameter of the algorithm is unknown, out of bounds, or impossible for these tasks.",
        "See `GET /v1/algorithms/{name}` for names, bounds and defaults.",
    ),
    "exceeds-memory": ErrorSpec(
        422,
        "Job exceeds its memory limit",
        "The fit is expected to need more memory than the `memory_mb` of the job, or than the "
        "machine of the service has.",
        "Follow the detail, or increase `memory_mb`.",
    ),
    "invalid-data": ErrorSpec(
        422,
        "Invalid data",
        "The tasks or rows do not meet the requirements of the algorithm or the model.",
        "Correct the data; the detail names the task and, if known, the row and column.",
    ),
    "checksum-mismatch": ErrorSpec(
        422,
        "Checksum mismatch",
        "The bytes of a resumable upload do not have the SHA-256 that the client declared: the "
        "file changed while it was sent.",
        "Upload the file again.",
    ),
    "invalid-dataset": ErrorSpec(
        422,
        "Invalid dataset",
        "The upload or combination was rejected; `errors` lists every issue that was found.",
        "Correct the issues, and upload or combine again. Nothing of the rejected dataset was "
        "stored.",
    ),
    "unknown-task": ErrorSpec(
        422,
        "Unknown task",
        "The model has no task of this name.",
        "Use one of the names in the detail, add the task to the model, or call it with "
        "`new_tasks=common`, which answers by what its tasks have in common.",
    ),
    "unknown-algorithm": ErrorSpec(
        422,
        "Unknown algorithm",
        "No algorithm of this name is installed.",
        "See `GET /v1/algorithms`.",
    ),
    "key-reused": ErrorSpec(
        422,
        "Idempotency key reused",
        "The same `Idempotency-Key` was sent before with a different body or URL.",
        "Use a new key for each new request.",
    ),
    "unsupported-method": ErrorSpec(
        422,
        "Method not supported by the model",
        "The model does not have this method: `predict` of a projection, for example.",
        "Use one of the model's `methods`.",
    ),
    "precondition-required": ErrorSpec(
        428,
        "Precondition required",
        "The request would overwrite an existing resource, but has no `If-Match` header.",
        "Read the resource, and send its `ETag` as `If-Match`.",
    ),
    "queue-full": ErrorSpec(
        429,
        "Too many queued jobs",
        "The owner has as many queued jobs as the operator allows.",
        "Retry after the number of seconds in `Retry-After`, or cancel queued jobs.",
    ),
    "quota-exceeded": ErrorSpec(
        429,
        "Quota exceeded",
        "The owner has as many datasets, model versions, keys, webhooks or stored bytes as are "
        "allowed.",
        "Delete what you no longer need, or ask the operator for more; waiting does not help.",
    ),
    "rate-limited": ErrorSpec(
        429,
        "Too many requests",
        "The owner sends more requests per second than the operator allows.",
        "Retry after the number of seconds in `Retry-After`, and send fewer requests; "
        "`RateLimit-Policy` has the limit.",
    ),
    "too-many-streams": ErrorSpec(
        429,
        "Too many event streams",
        "The owner has as many event streams and waiting requests as the operator allows.",
        "Close other streams, or poll the events without a stream.",
    ),
    "headers-too-large": ErrorSpec(
        431,
        "Headers too large",
        "The URL and the headers together are larger than 64 KiB.",
        "Send a shorter URL and shorter headers.",
    ),
    "internal": ErrorSpec(
        500,
        "Internal server error",
        "A bug in the service.",
        "Report it with the `request_id`, under which the log has the details.",
    ),
    "resource-shortage": ErrorSpec(
        503,
        "Resource shortage",
        "The machine of the service, of its database or of a worker lacks disk space, memory or "
        "file handles; the detail names the resource and its place. The request stored nothing.",
        "Retry after the number of seconds in `Retry-After`; a resumable upload continues where it "
        "stopped. The operator frees the resource. A job is tried again by itself.",
    ),
    "unavailable": ErrorSpec(
        503,
        "Service unavailable",
        "The service is starting, stopping or overloaded, or cannot reach its database.",
        "Retry after the number of seconds in `Retry-After`.",
    ),
}

#: Codes that any route can return.
ANYWHERE: Final = (
    "unauthenticated",
    "forbidden",
    "rate-limited",
    "headers-too-large",
    "invalid-request",
    "internal",
    "resource-shortage",
    "unavailable",
)


def remedy_of(code: str) -> str | None:
    """Return the remedy for an error of a request or a job; None if the code is unknown."""
    if code in JOB_CODES:
        return JOB_CODES[code][1]
    return ERRORS[code].remedy if code in ERRORS else None
