"""HTTP routes that return the rows of a file with their predictions."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from algorithms.interface.methods import LEVEL_METHODS
from service.http.bodies import JSON, ContentType
from service.http.documentation import file_body, problems
from service.http.negotiation import preferred_type
from service.http.requests import StrictRequest
from service.http.routing import Owner, secured
from service.inference.call import Body, Call, InferenceResult
from service.inference.compute import compute
from service.inference.context import Context, InferenceServices, TaskName
from service.inference.formats import CSV, FORMATS, REQUEST_READERS
from service.inference.handler import ParsedCall, Reply
from service.inference.new_tasks import NewTasksOption
from service.inference.prediction_table import (
    MORE_METHODS,
    PredictionTable,
    known_rows,
    prediction_table,
    spread,
)
from service.inference.respond import respond
from service.inference.routes import ROW_PROBLEMS, Level, MethodHandler
from service.inference.schemas import Value
from service.inference.sent_rows import missing_columns, table_of
from service.inference.statistics import Clock
from service.inference.task_column import TaskSource
from service.models.resolver import ResolvedModel
from service.models.routes import Name
from service.models.store import ServableVersion
from service.models.version_paths import add_version_routes, paths_of

router = APIRouter(prefix="/v1/models", tags=["inference"], route_class=secured("infer"))

XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_OFFERED: Final = (JSON, CSV, XLSX)

Shown = Annotated[int | None, Query(ge=0, description="Number of rows in JSON. Default: all rows.")]


class PredictedRows(BaseModel):
    """Rows with their predictions."""

    model: str = Field(description="Model name.")
    version: int = Field(description="Version number that was applied.")
    n_rows: int = Field(description="Number of rows that were sent.")
    task_column: str = Field(description="Column with the task of each row.")
    level: float | None = Field(
        description="Level of the intervals or sets; null if the model has neither."
    )
    columns: list[str] = Field(
        description="Names of the columns: those of the rows, then `prediction`; `low` and `high` "
        "of the interval; `probability` of the predicted class; `set`, the classes that are "
        "likely enough, in words; and `remarks`."
    )
    n_given: int = Field(description="Number of these columns that the rows have.")
    new_tasks: dict[str, int] = Field(
        description="Tasks that the model was not trained on, with their number of rows."
    )
    unknown_categories: dict[str, list[str]] = Field(
        description="Values of categories that the training rows do not have, by column."
    )
    missing_columns: list[str] = Field(
        description="Columns of the model that the rows do not have, and that count as unknown in "
        "each. They are refused if the model cannot answer without them, or if the rows have a "
        "column that it does not know, which may be one of them by another name."
    )
    far_values: dict[str, tuple[float, float]] = Field(
        description="Columns of numbers that have a value beyond the range of the training rows by "
        "more than the width of this range, with the range."
    )
    rows: list[list[Value]] = Field(description="The rows.")


class PredictionHandler(MethodHandler):
    """Handler that puts the outputs of several methods beside the rows."""

    def __init__(
        self,
        services: InferenceServices,
        parsed: ParsedCall,
        body: Body,
        clock: Clock,
        *,
        n_shown: int | None,
    ) -> None:
        self._accepted = preferred_type(parsed.headers.get("accept", ""), _OFFERED)
        headers = {**parsed.headers, "accept": JSON}
        self._level = parsed.level  # of intervals and sets: predict takes none
        super().__init__(services, parsed._replace(headers=headers, level=None), body, clock)
        self._method = "predict"
        self._n_shown = n_shown
        self._read_call: Call | None = None
        self._missing: list[str] = []
        # the further methods are not in the estimate of the time
        self.is_cheap_to_parse = False

    def read(self, tasks: TaskSource) -> Call:
        """Parse the rows."""
        call = super().read(tasks)
        self._read_call = call._replace(new_tasks=self.parsed.new_tasks)
        self._missing = self._missing_columns(call)
        return self._filled()

    def _missing_columns(self, call: Call) -> list[str]:
        """Return the columns that the rows do not have, if the model can answer without them."""
        served, rows = self._served(), table_of(call.rows)
        model = self.services.models.get(served)
        task = call.task if isinstance(call.task, str) else call.task[0] if call.task else ""
        if rows is None or rows.names is None or "predict" not in model.available_methods():
            return []
        task = task if task in model.tasks else model.tasks[0]
        spec = self.services.inputs.of_tasks(served, model, "predict", [task])
        return missing_columns(rows.names, spec)

    def _filled(self) -> Call:
        """Return the call with missing columns, without a value."""
        call = self._read_call
        assert call is not None  # read before
        rows = table_of(call.rows) if self._missing else None
        return call if rows is None else call._replace(rows=rows.with_empty(self._missing))

    def write(self, result: InferenceResult) -> Reply:
        """Return the rows with the outputs of all methods."""
        assert self._read_call is not None  # read before
        assert self._sent_rows is not None
        call = self._read_call._replace(rows=self._sent_rows)  # with the ids
        served = self._served()
        results: dict[str, InferenceResult] = {
            method: self._more(served, method, self._filled(), result)
            for method in MORE_METHODS
            if method in served.methods
        }
        table = prediction_table(
            call._replace(level=self._level),
            {"predict": result, **results},
            task_column=served.task_column,
            unknown=self._unknown,
            missing=self._missing,
            ranges=self.services.inputs.ranges(served),
        )
        headers = [(b"content-type", self._accepted.encode()), (b"vary", b"Accept")]
        if self._accepted != JSON:
            ending = ".csv" if self._accepted == CSV else ".xlsx"
            name = f'attachment; filename="{served.name}-predictions{ending}"'
            headers.append((b"content-disposition", name.encode()))
        return self.make_reply(self._content(table), tuple(headers), result)

    def _more(
        self, served: ServableVersion, method: str, call: Call, result: InferenceResult
    ) -> InferenceResult:
        """Return the outputs of a further method; NaN for tasks that its calibration lacks."""
        call = call._replace(level=self._level if method in LEVEL_METHODS else None)
        resolved = ResolvedModel(served, method)
        if not result.new_tasks or served.new_tasks == "common":
            return compute(self.services, resolved, call)
        known, places = known_rows(call, result.new_tasks)
        found = None if known is None else compute(self.services, resolved, known)
        return spread(found, result, places)

    def _content(self, table: PredictionTable) -> bytes:
        if self._accepted == JSON:
            return table.to_json(self._n_shown)
        return table.to_csv() if self._accepted == CSV else table.to_workbook()


_DOCS: Final[dict[str, Any]] = {
    "response_model": PredictedRows,
    "responses": {
        200: {"content": {name: {} for name in _OFFERED[1:]}, "description": "The rows, in order."},
        **problems(*ROW_PROBLEMS),
    },
    "openapi_extra": file_body(
        "A file with rows. A column `row_id`, unless the model has one, gives the ids by which "
        "monitors keep the rows.",
        (*FORMATS, *REQUEST_READERS),
    ),
}
_PATH: Final = "/{name}/predictions"


async def _predict_rows(
    name: Name,
    version: int | None,
    request: StrictRequest,
    *,
    services: Context,
    owner: Owner,
    task: TaskName = None,
    level: Level = None,
    new_tasks: NewTasksOption = None,
    rows: Shown = None,
    content_type: ContentType = None,
) -> Response:
    """Return the rows with predictions, intervals or probabilities, and remarks."""
    path = paths_of(router.prefix + _PATH)[version is not None]
    headers = request.plain_headers
    parsed = ParsedCall(path, owner, name, version, task, headers, level, new_tasks)
    make = partial(PredictionHandler, n_shown=rows)
    return await respond(make, services, parsed, request, content_type)


add_version_routes(
    router,
    "POST",
    _PATH,
    _predict_rows,
    names=("predict_rows_latest", "predict_rows"),
    summaries=("Predict the rows of a file by the latest version", "Predict the rows of a file"),
    **_DOCS,
)
