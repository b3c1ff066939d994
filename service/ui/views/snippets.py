"""Programs that call a model, right for its name, version, method, task and columns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.ui.api import Api, segment
from service.ui.views.lists import FORBIDDEN

_N_ROWS = 2


@dataclass(frozen=True, slots=True)
class Example:
    """Rows of the training data of a model, to call it with.

    Parameters
    ----------
    names
        Names of the columns; None if they are only numbered.
    """

    task: str
    names: Sequence[str] | None
    rows: Sequence[Sequence[Any]]

    def csv(self) -> str:
        """Return the rows as CSV, with a header if the columns have names."""
        lines = [] if self.names is None else [",".join(_cell(name) for name in self.names)]
        return "\n".join([*lines, *(",".join(_cell(v) for v in row) for row in self.rows)])


async def example_of(api: Api, model: Mapping[str, Any]) -> Example:
    """Return the first rows of the first task that its dataset still has; none without access."""
    path = f"/v1/datasets/{segment(model['lineage']['dataset_id'])}/preview"
    preview = await api.find(path, refused=FORBIDDEN, tasks=1, rows=_N_ROWS)
    tasks = (preview or {"tasks": []})["tasks"]
    if not tasks or tasks[0]["name"] not in model["tasks"] or not tasks[0]["rows"]:
        return Example(model["tasks"][0], None, [])
    if tasks[0]["n_features"] > len(tasks[0]["rows"][0]):  # very wide rows are not shown whole
        return Example(tasks[0]["name"], None, [])
    names = [column["name"] for column in tasks[0]["columns"]]
    rows = [[row[name] for name in names] for row in tasks[0]["rows"]]
    is_numbered = names == [str(i) for i in range(len(names))]
    return Example(tasks[0]["name"], None if is_numbered else names, rows)


def snippets_of(model: Mapping[str, Any], example: Example, origin: str) -> list[tuple[str, str]]:
    """Return the title and the text of each program."""
    if not example.rows:
        return []
    method = "predict" if "predict" in model["methods"] else model["methods"][0]
    path = f"/v1/models/{segment(model['name'])}/versions/{model['version']}"
    url = f"{origin}{path}/{method.replace('_', '-')}?task={segment(example.task)}"
    quoted = example.csv().replace("'", "'\\''")
    rows: Any = example.rows
    if example.names is not None:
        rows = [dict(zip(example.names, row, strict=True)) for row in example.rows]
    programs = [
        ("curl", f"curl '{url}' -H 'Content-Type: text/csv' --data-binary '{quoted}\n'"),
        (
            "Python",
            (
                f"from sibling import Client\n\nwith Client({origin!r}) as client:\n"
                f"    model = client.model({model['name']!r}, version={model['version']})\n"
                f"    print(model.{method}({rows!r}, task={example.task!r}))"
            ),
        ),
        (
            "JavaScript",
            (
                f"const response = await fetch({json.dumps(url)}, {{\n"
                '  method: "POST",\n  headers: {"Content-Type": "text/csv"},\n'
                f"  body: {json.dumps(example.csv() + chr(10))},\n"
                "});\nconsole.log((await response.json()).outputs);"
            ),
        ),
    ]
    if model["preparation"] is None:
        programs.append(("tritonclient", _triton(model, example, method, origin)))
    return programs


def _triton(model: Mapping[str, Any], example: Example, method: str, origin: str) -> str:
    shape = [len(example.rows), len(example.rows[0])]
    return (
        "import numpy as np\nimport tritonclient.http as triton\n\n"
        f"client = triton.InferenceServerClient({origin.partition('://')[2]!r})\n"
        f"rows = triton.InferInput('rows', {shape}, 'FP64')\n"
        f"rows.set_data_from_numpy(np.array({[list(row) for row in example.rows]!r}))\n"
        f"answer = client.infer({model['name'] + '.' + method!r}, [rows], "
        f"model_version='{model['version']}', parameters={{'task': {example.task!r}}})\n"
        "print(answer.as_numpy(answer.get_response()['outputs'][0]['name']))"
    )


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",\r\n') else text
