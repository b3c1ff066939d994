"""``sibling train``: upload data, train a model, and show the result."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import orjson
import typer

from algorithms.interface.new_tasks import NewTasks
from sibling import Client, RemoteModel, TrainingJob
from sibling.client.environment import DEFAULT_URL
from sibling.commands.app import App
from sibling.commands.datasets import (
    GroupColumn,
    Read,
    WeightColumn,
    find_or_upload,
    name_and_value,
    read_options,
    without_none,
)
from sibling.commands.jobs import note_expected
from sibling.commands.models import find_report, print_report, print_scores
from sibling.commands.names import COMPLETE_ALGORITHM, Data, Url
from sibling.commands.output import is_json, print_json, print_note, print_text

training = App()

#: Name of the automatic choice of the algorithm.
AUTOMATIC: Final = "auto"

Algorithm = Annotated[
    str,
    typer.Option(
        "--algorithm",
        "-a",
        help="Algorithm, see 'sibling algorithms'.",
        autocompletion=COMPLETE_ALGORITHM,
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", help="Set a parameter: NAME=VALUE (VALUE is JSON)."),
]
Search = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        "-s",
        help="Values of a parameter to try: NAME=[V1,V2,...]. With --method random or halving also "
        'a range: NAME={"low":1,"high":9}.',
    ),
]
Compare = Annotated[
    bool, typer.Option("--compare", help="Compare with baselines on held-out rows.")
]
Evaluate = Annotated[bool, typer.Option("--evaluate", help="Score the algorithm on held-out rows.")]
Method = Annotated[
    Literal["grid", "random", "halving"],
    typer.Option("--method", help="Search method: grid, random or halving."),
]
ModelName = Annotated[
    str | None, typer.Option(help="Name of the model. Default: name of the algorithm.")
]
TaskColumn = Annotated[str | None, typer.Option(help="Column of the task.")]
TargetColumn = Annotated[str | None, typer.Option(help="Column of the target.")]
TargetKind = Annotated[
    Literal["auto", "numbers", "classes"] | None,
    typer.Option(help="Kind of targets: auto, numbers or classes. Default: auto."),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        help='Weights of classes in the fit: balanced, or as JSON {"ill":5}. Default: none.'
    ),
]
Preparation = Annotated[
    str | None,
    typer.Option(
        help='How raw rows are prepared, as JSON, such as {"scale":"robust"}. Default: missing '
        "values are filled, text and dates become numbers."
    ),
]
Calibrate = Annotated[
    bool,
    typer.Option(
        "--calibrate",
        help="Fit also without folds of the rows, for predict-proba, predict-set and "
        "predict-interval.",
    ),
]
NewTasksDefault = Annotated[
    NewTasks,
    typer.Option(
        help="What calls of the model do about tasks that it was not trained on: refuse them, or "
        "answer by what the tasks have in common."
    ),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        help="When a class is answered, with --calibrate: prevalence, or the costs of missing "
        'classes as JSON {"ill":10}. Default: as without calibration.'
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="Metric that decides in auto, --compare and --search: error_rate, auc, rmse, r2, ... "
        "Default: the error rate of classes, AUC if a class is rare, RMSE of numbers."
    ),
]
BudgetS = Annotated[
    float | None,
    typer.Option(help="Processor time of all methods of auto, in seconds. Default: 60."),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
MemoryMb = Annotated[
    int | None,
    typer.Option(help="Memory limit of the job in MiB. Default: SIBLING_DEFAULT_MEMORY_MB."),
]
TimeoutS = Annotated[
    float | None,
    typer.Option(help="Time limit of one attempt in seconds. Default: SIBLING_DEFAULT_TIMEOUT_S."),
]


@training.command()
def train(
    data: Data,
    algorithm: Algorithm,
    *,
    param: Param = None,
    search: Search = None,
    compare: Compare = False,
    evaluate: Evaluate = False,
    method: Method = "grid",
    model: ModelName = None,
    task_column: TaskColumn = None,
    target_column: TargetColumn = None,
    target_kind: TargetKind = None,
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    class_weight: ClassWeight = None,
    read: Read = None,
    preparation: Preparation = None,
    calibrate: Calibrate = False,
    new_tasks: NewTasksDefault = "refuse",
    threshold: Threshold = None,
    metric: Metric = None,
    budget_s: BudgetS = None,
    seed: Seed = 0,
    memory_mb: MemoryMb = None,
    timeout_s: TimeoutS = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Upload data, train a model, and show the progress."""
    if method != "grid" and not search:
        raise typer.BadParameter("--method needs values to try; add --search NAME=[V1,V2,...]")
    is_auto = algorithm == AUTOMATIC
    if metric and not (is_auto or compare or search):
        raise typer.BadParameter("--metric needs --algorithm auto, --compare or --search")
    if budget_s is not None and not is_auto:
        raise typer.BadParameter("--budget-s needs --algorithm auto; --timeout-s limits other jobs")
    options = without_none(
        task_column=task_column,
        target_column=target_column,
        target_kind=target_kind,
        group_column=group_column,
        weight_column=weight_column,
    )
    params = _values(param)
    deciding = without_none(metric=metric)
    if is_auto:
        params |= deciding | without_none(budget_s=budget_s)
    space = _values(search)
    with Client(url) as client:
        job = client.submit(
            find_or_upload(client, data, **options, **read_options(read)),
            algorithm,
            params,
            model=model,
            seed=seed,
            limits=without_none(memory_mb=memory_mb, timeout_s=timeout_s),
            search={"space": space, "method": method, **deciding} if space else None,
            compare=deciding if compare and deciding else compare,
            evaluate=evaluate,
            preparation=_json(preparation),
            calibration=without_none(threshold=_json(threshold)) or calibrate or None,
            class_weight=_json(class_weight),
            new_tasks=new_tasks,
        )
        _show(_wait(job))


def _show(model: RemoteModel) -> None:
    """Print a new model with its scores, and its report if it has one."""
    report = find_report(model)
    if is_json():
        print_json(model.info | {"report": report})
        return
    print_text(f"model {model.name}, version {model.version}")
    print_scores(model)
    if report is not None:
        print_report(report)


def _wait(job: TrainingJob) -> RemoteModel:
    note_expected(job)
    try:
        return job.wait(progress=True)
    except KeyboardInterrupt:
        print_note(f"the job continues: see 'sibling jobs watch {job.id}', or 'jobs cancel'")
        raise


def _values(given: Sequence[str] | None) -> dict[str, Any]:
    """Return the values of NAME=VALUE, of which the values are JSON."""
    return {name: _json(value) for name, value in map(name_and_value, given or ())}


def _json(text: str | None) -> Any:
    """Return the value of JSON; text that is not JSON is a string without quotes."""
    try:
        return None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
