"""Inference requests through FastAPI routes: unusual URLs and uncached API keys."""

from starlette.datastructures import Headers
from starlette.responses import Response

from service.http.bodies import media_type_of
from service.http.requests import StrictRequest
from service.inference.call import raise_invalid_request
from service.inference.context import InferenceServices
from service.inference.handler import MakeHandler, ParsedCall
from service.inference.statistics import Clock


async def respond(
    make: MakeHandler,
    services: InferenceServices,
    parsed: ParsedCall,
    request: StrictRequest,
    content_type: str | None = None,
) -> Response:
    """Receive the body of a request and return the response.

    Parameters
    ----------
    content_type
        The media type of the body in the query.

    Raises
    ------
    Problem
        The query has several tasks, or the request is invalid.
    """
    clock = Clock()
    n_tasks = len(request.query_params.getlist("task"))
    if n_tasks > 1:  # else the last one would be used for all rows
        raise_invalid_request(
            "query:task",
            f"'task' is given {n_tasks} times; send the tasks of rows in a column 'task'",
        )
    if content_type is not None:
        headers = {**parsed.headers, "content-type": media_type_of(request, content_type)}
        parsed = parsed._replace(headers=headers)
    body = await request.read(services.settings.max_body_bytes)
    handler = make(services, parsed, body, clock)
    reply = await handler.run()
    handler.record_success()
    return Response(reply.body, headers=Headers(raw=list(reply.headers)))
