"""Calls for tasks that a model was not trained on, in every way in."""

import asyncio
import html
import io
import json
from urllib.parse import unquote

import httpx
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from algorithms.registry import load_model
from algorithms.wrappers.new_tasks import with_new_tasks
from algorithms.wrappers.preparation.model import preparation_of
from sibling import AsyncClient, MixedModel, NewTasksWarning, RemoteEstimator, ServiceError
from tests.written import as_parquet, as_stream

CSV, JSON = "text/csv", "application/json"
PARQUET, STREAM = "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"
NPY, NPZ = "application/x-npy", "application/x-npz"
NEW = "Schön, Ort"


def table(n_schools: int = 6, n: int = 10) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    schools = np.repeat([f"S{i}" for i in range(n_schools)], n)
    frame = pd.DataFrame({"school": schools, "age": rng.normal(size=len(schools))})
    frame["kind"] = np.where(np.arange(len(frame)) % 2, "a", "b")
    level = np.repeat(rng.normal(size=n_schools), n)
    frame["mark"] = 5 + level + frame["age"] + (frame["kind"] == "a") + 0.1 * rng.normal(size=60)
    return frame


def rows(*names: str) -> pd.DataFrame:
    n = len(names)
    return pd.DataFrame({"kind": (["a", "b"] * n)[:n], "school": names, "age": np.arange(n) / 2})


BODIES = {
    "csv": (CSV, lambda frame: frame.to_csv(index=False).encode()),
    "records": (JSON, lambda frame: json.dumps({"inputs": frame.to_dict("records")}).encode()),
    "stream": (STREAM, as_stream),
    "parquet": (PARQUET, as_parquet),
}


@pytest.fixture(scope="module")
def dataset(client):
    return client.upload(table(), name="new", task_column="school", target_column="mark")


@pytest.fixture(scope="module")
def model(client, dataset):
    return client.train(dataset, "mixed-model", model="marks").wait()


@pytest.fixture(scope="module")
def willing(client, dataset):
    return client.train(dataset, "mixed-model", model="willing", new_tasks="common").wait()


@pytest.fixture(scope="module")
def expected(model, tmp_path_factory):
    """Return predictions of the offline model for rows as the service encodes them."""
    offline = with_new_tasks(
        load_model(model.download(tmp_path_factory.mktemp("new") / "model")), (NEW, "S9")
    )
    levels = preparation_of(offline).of("S9").columns

    def predict(frame: pd.DataFrame) -> np.ndarray:
        X = np.column_stack(
            [
                frame[column.name].map(column.levels.index)
                if column.kind == "category"
                else frame[column.name]
                for column in levels
            ]
        ).astype(float)
        tasks = frame["school"]
        return np.array([offline.predict(X[[i]], task=t)[0] for i, t in enumerate(tasks)])

    return predict


@pytest.fixture(scope="module")
def call(service):
    def post(name, body, media_type, **query):
        address = f"{service.url}/v1/models/{name}/predict"
        accept = query.pop("accept", JSON)
        headers = {"Content-Type": media_type, "Accept": accept}
        return httpx.post(address, params=query, content=body, headers=headers, timeout=60)

    return post


@pytest.mark.parametrize("kind", BODIES)
def test_new_tasks_are_answered_beside_others_in_every_format(call, model, expected, kind) -> None:
    media_type, write = BODIES[kind]
    frame = rows("S1", NEW, "S0", "S9", NEW)
    response = call(model.name, write(frame), media_type, new_tasks="common")
    assert response.status_code == 200, response.text
    answer = response.json()
    np.testing.assert_allclose(answer["outputs"], expected(frame), rtol=1e-12)
    assert answer["new_tasks"] == [NEW, "S9"]
    names = response.headers["sibling-new-tasks"].split(",")
    assert [*map(unquote, names)] == [NEW, "S9"]


@pytest.mark.parametrize("accept", [CSV, STREAM, PARQUET, NPY])
def test_answers_that_are_no_json_name_the_tasks_in_a_header(call, model, accept) -> None:
    body = BODIES["csv"][1](rows("S9", "S1"))
    response = call(model.name, body, CSV, new_tasks="common", accept=accept)
    assert response.status_code == 200, response.text
    assert response.headers["sibling-new-tasks"] == "S9"
    known = call(model.name, BODIES["csv"][1](rows("S1")), CSV, new_tasks="common", accept=accept)
    assert "sibling-new-tasks" not in known.headers


def test_one_task_of_all_rows_may_be_new(call, model, expected) -> None:
    frame = rows(NEW, NEW)
    body = json.dumps({"task": NEW, "inputs": frame[["kind", "age"]].to_dict("records")}).encode()
    answer = call(model.name, body, JSON, new_tasks="common").json()
    np.testing.assert_allclose(answer["outputs"], expected(frame), rtol=1e-12)
    assert answer["new_tasks"] == [NEW]


def test_new_tasks_are_an_error_unless_the_call_or_the_model_takes_them(
    call, model, willing
) -> None:
    body = BODIES["csv"][1](rows("S1", "S9"))
    for name, query in ((model.name, {}), (willing.name, {"new_tasks": "refuse"})):
        response = call(name, body, CSV, **query)
        assert (response.status_code, response.json()["code"]) == (422, "unknown-task")
        (error,) = response.json()["errors"]
        assert (error["task"], error["row"]) == ("S9", 1)
        assert "new_tasks=common" in error["detail"]
    assert call(willing.name, body, CSV).json()["new_tasks"] == ["S9"]
    assert (model.info["new_tasks"], willing.info["new_tasks"]) == ("refuse", "common")


@pytest.mark.parametrize("name", ["x" * 1001, "x\0y"])
@pytest.mark.parametrize("kind", BODIES)
def test_a_new_task_that_no_monitor_could_store_is_refused(call, model, kind, name) -> None:
    media_type, write = BODIES[kind]
    response = call(model.name, write(rows("S1", name)), media_type, new_tasks="common")
    assert response.status_code in (400, 422), response.text
    assert "row 1" in response.text or "NUL" in response.text
    if len(name) > 1000:
        body = {"task": name, "inputs": rows("S1")[["kind", "age"]].to_dict("records")}
        response = call(model.name, json.dumps(body).encode(), JSON, new_tasks="common")
        assert response.json()["code"] == "invalid-data"
        assert "more than 1000 characters" in response.json()["detail"]


def test_another_value_of_the_option_is_an_invalid_request(call, model) -> None:
    response = call(model.name, BODIES["csv"][1](rows("S1")), CSV, new_tasks="yes")
    assert response.status_code == 422
    assert response.json()["errors"][0]["parameter"] == "query:new_tasks"


def test_a_model_without_a_common_part_names_the_tasks_and_what_to_do(
    client, call, dataset
) -> None:
    alone = client.train(dataset, "ridge", model="alone").wait()
    response = call(alone.name, BODIES["csv"][1](rows("S9", "S1", "S8")), CSV, new_tasks="common")
    assert (response.status_code, response.json()["code"]) == (422, "unknown-task")
    detail = response.json()["detail"]
    assert "'S9', 'S8'" in detail
    assert "adapt" in detail
    with pytest.raises(ServiceError) as refused:
        client.train(dataset, "ridge", model="alone", new_tasks="common")
    assert refused.value.errors[0]["pointer"] == "/new_tasks"
    with pytest.raises(ServiceError) as refused:
        client.train(
            dataset,
            "mixed-model",
            model="alone",
            new_tasks="common",
            preparation={"per_task": True},
        )
    assert refused.value.errors[0]["pointer"] == "/new_tasks"


def test_the_protocol_has_the_option_as_a_parameter(service, model, expected) -> None:
    frame = rows("S9", "S1")
    inputs = [
        {"name": "school", "shape": [2], "datatype": "BYTES", "data": list(frame["school"])},
        {"name": "kind", "shape": [2], "datatype": "BYTES", "data": list(frame["kind"])},
        {"name": "age", "shape": [2], "datatype": "FP64", "data": list(frame["age"])},
    ]
    address = f"{service.url}/v2/models/{model.name}/infer"
    for body, query in (
        ({"parameters": {"new_tasks": "common"}}, {}),
        ({}, {"new_tasks": "common"}),
    ):
        response = httpx.post(address, json={**body, "inputs": inputs}, params=query)
        assert response.status_code == 200, response.text
        answer = response.json()
        np.testing.assert_allclose(answer["outputs"][0]["data"], expected(frame), rtol=1e-12)
        assert answer["parameters"] == {"new_tasks": "S9"}
    refused = httpx.post(address, json={"inputs": inputs})
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown-task")
    wrong = {"parameters": {"new_tasks": True}, "inputs": inputs}
    response = httpx.post(address, json=wrong)
    assert response.json()["errors"][0]["pointer"] == "/parameters/new_tasks"
    properties = httpx.get(f"{service.url}/v2/models/{model.name}").json()["properties"]
    assert properties["new_tasks"] == "refuse"


def test_the_client_answers_with_a_warning_that_names_the_tasks(service, model, expected) -> None:
    frame = rows("S9", "S1", NEW)
    for data in (frame, frame.to_dict("records")):
        with pytest.warns(NewTasksWarning, match="'S9'") as caught:
            found = model.predict(data, new_tasks="common")
        np.testing.assert_allclose(found, expected(frame), rtol=1e-12)
        assert caught[0].message.tasks == ("S9", NEW)

    async def predict() -> np.ndarray:
        async with AsyncClient(service.url) as other:
            remote = await other.model(model.name)
            return await remote.predict(frame, new_tasks="common")

    with pytest.warns(NewTasksWarning):
        np.testing.assert_allclose(asyncio.run(predict()), expected(frame), rtol=1e-12)
    with pytest.raises(ServiceError) as refused:
        model.predict(frame)
    assert refused.value.code == "unknown-task"


def test_batch_inference_takes_new_tasks(service, client, model, expected, tmp_path) -> None:
    frame = rows("S9", "S9", "S1").assign(mark=0.0)
    later = client.upload(frame, name="later", task_column="school", target_column="mark")
    with pytest.raises(ServiceError) as refused:
        client.infer(model, "predict", later)
    assert refused.value.code == "unknown-task"
    job = client.infer(model, "predict", later, new_tasks="common")
    outputs = job.wait()
    assert outputs.report["new_tasks"] == ["S9"]
    page = html.unescape(httpx.get(f"{service.url}/jobs/{job.id}", timeout=60).text)
    assert "answered by what the schools of the model have in common" in page
    assert "not trained on them: 'S9'" in page
    found = pq.read_table(outputs.download(tmp_path / "out.parquet")).to_pandas()
    found = found.set_index(["task", "row"])["outputs"]
    predicted = expected(frame)
    places = [("S9", 0), ("S9", 1), ("S1", 0)]
    np.testing.assert_allclose([found[place] for place in places], predicted, rtol=1e-12)


@pytest.mark.slow
def test_an_adapted_model_keeps_the_default(client, willing) -> None:
    more = table().assign(school="S7").head(10)
    newcomer = client.upload(more, name="S7", task_column="school", target_column="mark")
    adapted = client.adapt(willing, newcomer).wait()
    assert adapted.info["new_tasks"] == "common"
    with pytest.warns(NewTasksWarning):
        adapted.predict(rows("S9"))


@pytest.mark.slow
def test_a_calibrated_model_has_intervals_of_new_tasks_if_tasks_were_left_out(
    client, dataset
) -> None:
    calibrated = client.train(dataset, "mixed-model", model="calibrated", calibration=True).wait()
    with pytest.warns(NewTasksWarning):
        assert calibrated.predict(rows("S9"), new_tasks="common").shape == (1,)
    with pytest.raises(ServiceError) as refused:
        calibrated.predict_interval(rows("S9"), new_tasks="common")
    assert (refused.value.code, refused.value.errors[0]["task"]) == ("invalid-data", "S9")
    assert calibrated.report()["calibration"]["new_tasks"] is None
    job = client.train(
        dataset, "mixed-model", model="calibrated", calibration=True, new_tasks="common"
    )
    left_out = job.wait()
    with pytest.warns(NewTasksWarning):
        ends = left_out.predict_interval(rows("S1", "S9"), level=0.8)
    assert np.diff(ends[1])[0] > 1.5 * np.diff(ends[0])[0]
    report = left_out.report()["calibration"]["new_tasks"]
    assert report["n_tasks"] == 6
    assert report["left_out_tasks"]["rmse"] > 2 * report["left_out_rows"]["rmse"]
    with pytest.raises(ServiceError) as refused:
        client.train(dataset, "ridge", model="calibrated", calibration={"leave_tasks_out": True})
    assert refused.value.errors[0]["pointer"] == "/calibration"


def test_many_new_tasks_are_counted_at_the_end_of_the_header(call, model) -> None:
    names = [f"a school with a long name, number {i}" for i in range(300)]
    response = call(model.name, BODIES["csv"][1](rows(*names)), CSV, new_tasks="common")
    *listed, last = response.headers["sibling-new-tasks"].split(",")
    assert len(listed) + int(last.removeprefix("+")) == 300
    assert response.json()["new_tasks"] == names


def test_the_command_prints_a_note_and_names_the_tasks_in_json(
    command, service, model, expected, tmp_path
) -> None:
    frame = rows("S9", "S1")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    arguments = ("predict", model.name, "rows.csv", "--url", service.url)
    refused = command(*arguments, cwd=tmp_path)
    assert refused.returncode not in (0, 2)
    assert "--new-tasks=common" in refused.stderr
    end = command(*arguments, "--new-tasks", "common", cwd=tmp_path)
    assert end.returncode == 0, end
    np.testing.assert_allclose(np.loadtxt(io.StringIO(end.stdout)), expected(frame), rtol=1e-12)
    assert "'S9'" in end.stderr
    end = command(*arguments, "--new-tasks", "common", "--json", cwd=tmp_path)
    assert json.loads(end.stdout)["new_tasks"] == ["S9"]


@pytest.mark.slow
def test_the_commands_of_training_and_batch_inference_take_the_option(
    command, service, tmp_path
) -> None:
    table().to_csv(tmp_path / "schools.csv", index=False)
    table().query("school == 'S1'").assign(school="S9").to_csv(tmp_path / "later.csv", index=False)
    columns = ("--task-column", "school", "--target-column", "mark", "--url", service.url)
    train = ("train", "schools.csv", "-a", "mean-regularised", "--model", "by-command", *columns)
    end = command(*train, "--new-tasks", "common", cwd=tmp_path)
    assert end.returncode == 0, end
    end = command("infer", "by-command", "predict", "later.csv", *columns, cwd=tmp_path)
    assert end.returncode == 0, end
    assert "'S9'" in end.stderr
    end = command(
        "infer", "by-command", "predict", "later.csv", "--new-tasks", "refuse", *columns,
        cwd=tmp_path,
    )  # fmt: skip
    assert end.returncode not in (0, 2)
    assert "S9" in end.stderr


@pytest.mark.slow
def test_a_remote_estimator_answers_for_new_tasks(client) -> None:
    frame = table()
    X, y, tasks = frame[["age"]].to_numpy(), frame["mark"], frame["school"]
    remote = RemoteEstimator(MixedModel(), client=client, model="remote-new")
    remote.fit(X, y, tasks=tasks)
    with pytest.warns(NewTasksWarning):
        found = remote.predict(X[:2], tasks="S9", new_tasks="common")
    local = MixedModel(new_tasks="common").fit(X, y, tasks=tasks)
    with pytest.warns(NewTasksWarning):
        np.testing.assert_array_equal(found, local.predict(X[:2], tasks="S9"))
    willing = RemoteEstimator(MixedModel(new_tasks="common"), client=client, model="remote-new")
    willing.fit(X, y, tasks=tasks)
    assert willing.model_.info["new_tasks"] == "common"


@pytest.mark.slow
def test_an_evaluation_has_the_error_on_left_out_tasks_beside_left_out_rows(
    client, service, dataset
) -> None:
    job = client.train(
        dataset,
        "mixed-model",
        model="evaluated",
        evaluate={"splits": {"n_folds": 3, "repeats": 1}},
        new_tasks="common",
    )
    model = job.wait()
    evaluation = model.report()["evaluation"]
    left_out = evaluation["left_out_tasks"]
    page = httpx.get(f"{service.url}/models/evaluated/{model.version}")
    assert page.status_code == 200
    assert "on schools left out for checking" in page.text
    assert left_out["failed"] is None
    # the levels of schools have the deviation 1, and rows 0.1
    assert evaluation["mean"]["rmse"] < 0.3
    assert left_out["mean"]["rmse"] > 0.5
    assert left_out["by_task"]["rmse"].keys() == {f"S{i}" for i in range(6)}
    plain = client.train(
        dataset,
        "mixed-model",
        model="evaluated",
        evaluate={"splits": {"n_folds": 3, "repeats": 1}},
    )
    assert plain.wait().report()["evaluation"]["left_out_tasks"] is None


@pytest.mark.slow  # compares methods
def test_auto_chooses_a_method_that_answers_and_scores_left_out_tasks(
    client, service, dataset
) -> None:
    options = {"splits": {"n_folds": 3, "repeats": 1}}
    methods = ["ridge", "mean-regularised", "constant"]
    job = client.train(
        dataset, "auto", model="chosen-new", algorithms=methods, new_tasks="common", **options
    )
    chosen = job.wait()
    with pytest.warns(NewTasksWarning):
        chosen.predict(rows("S9"))
    page = httpx.get(f"{service.url}/models/chosen-new/{chosen.version}")
    assert page.status_code == 200
    assert "on left-out " in page.text
    choice = chosen.report()["choice"]
    scores = {
        (row["algorithm"], row["role"], row["variant"]): row["left_out_tasks"]
        for row in choice["leaderboard"]
    }
    assert scores["mean-regularised", "multi_task", ""] > 0.5
    assert scores["ridge", "pooled", ""] > 0.5
    assert scores["ridge", "single_task", ""] is None
    assert choice["together_or_apart"] is not None
    with pytest.raises(ServiceError) as refused:
        client.train(
            dataset, "auto", model="chosen-new", algorithms=["cmtl"], new_tasks="common", **options
        )
    assert refused.value.code == "invalid-data"
