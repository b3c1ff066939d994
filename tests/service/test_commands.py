"""Commands of nouns: output for people and for programs, exit codes, suggestions, completion."""

import json
import os
import pty
import socket
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
import typer

from algorithms.registry import ALGORITHMS, load_model
from service.cli import app
from service.operations.configuration import CLIENT_VARIABLES, effective_settings
from service.settings import Settings
from service.tools.generate import _walk
from sibling import ServiceError, __version__
from sibling.client.transport import BlockingTransport
from sibling.commands.exit_codes import MEANINGS, ExitCode, exit_code
from sibling.commands.names import find_dataset
from sibling.commands.output import json_output, print_table, print_text

#: Commands that run until they are stopped.
WITHOUT_JSON = {"serve", "scheduler", "worker", "demo"}


@pytest.fixture
def run(command, service, tmp_path):
    """``run(*arguments)``: standard output of a command that succeeds, in an empty folder."""

    def run_command(*arguments, **env):
        env = {"SIBLING_URL": service.url} | env
        return command(*arguments, cwd=tmp_path, check=True, **env).stdout

    return run_command


@pytest.fixture(scope="module")
def pair(client, dataset):
    """Two versions of a model on the same rows, the second of them evaluated."""
    first = client.train(dataset, "pca", model="cli-pair", k=1).wait()
    second = client.train(dataset, "logistic-regression", model="cli-pair", evaluate=True)
    return first, second.wait()


# --- output --------------------------------------------------------------------------------------


def test_every_command_with_a_result_has_the_option_json():
    commands = dict(_walk("", typer.main.get_command(app)))
    without = {
        name.strip()
        for name, found in commands.items()
        if not any("--json" in parameter.opts for parameter in found.params)
    }
    assert without == WITHOUT_JSON


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("noun", ["datasets", "jobs", "models", "algorithms"])
def test_a_list_is_a_table_for_people_and_whole_items_for_programs(run, client, noun):
    items = list(getattr(client, noun)())
    listed = json.loads(run(noun, "list", "--json"))
    key = "name" if noun == "algorithms" else "id"
    assert {item[key] for item in items} <= {item[key] for item in listed}
    assert listed[0].keys() == items[0].keys()
    lines = run(noun).splitlines()
    header, *rows = (line.split("\t") for line in lines)
    assert header[0] == ("name" if noun in ("models", "algorithms") else "id")
    assert {len(row) for row in rows} == {len(header)}
    names = {row[0] for row in rows}
    assert {item[header[0]] for item in items} <= names


def test_a_terminal_gets_aligned_columns_and_never_control_codes():
    code = (
        "from sibling.commands.output import print_table, print_note\n"
        "print_table([('a', 1.23456), ('long\\x1b[31m\\tname', None)], ('name', 'value'))"
    )
    leader, follower = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", code], stdout=follower, env=env, check=True)
    os.close(follower)
    text = os.read(leader, 10_000).decode()
    os.close(leader)
    assert "\t" not in text
    assert "long\\x1b[31m\\tname  -" in text
    assert "1.235" in text


def test_a_pipe_gets_a_line_for_each_row(capsys):
    with json_output(enabled=False):
        print_table([("a\tb\n\x1b[2J", 1.0, None), ("c", [1, 2], {"k": 0.5})], ("x", "y", "z"))
        print_text("\x1b[2J")
    lines = ["x\ty\tz", "a\\tb\\n\\x1b[2J\t1\t-", "c\t1, 2\tk=0.5", "\\x1b[2J"]
    assert capsys.readouterr().out.splitlines() == lines


# --- jobs ----------------------------------------------------------------------------------------


def test_a_job_is_watched_shown_and_its_events_are_read(run, client, dataset):
    job = client.train(dataset, "pca", model="cli-watched", k=1)
    assert run("jobs", "watch", job.id) == "model cli-watched, version 1\n"
    assert json.loads(run("jobs", "watch", job.id, "--json")) == client.job(job.id).info
    shown = dict(line.split("\t") for line in run("jobs", "show", job.id).splitlines())
    assert (shown["id"], shown["state"], shown["dataset_id"]) == (job.id, "succeeded", dataset.id)
    events = [json.loads(line) for line in run("jobs", "logs", job.id, "--json").splitlines()]
    assert events == list(job.events())
    text = run("jobs", "logs", job.id, "--follow").splitlines()
    assert len(text) == len(events)
    assert text[-1].endswith("state=succeeded")
    listed = json.loads(run("jobs", "list", "--state", "succeeded", "--json"))
    assert job.id in [item["id"] for item in listed]
    assert {item["state"] for item in listed} == {"succeeded"}


def test_a_cancelled_job_fails_whoever_watches_it(run, command, service, client):
    rng = np.random.default_rng(0)
    big = client.upload({f"t{i}": rng.standard_normal((60, 40)) for i in range(12)})
    params = {"selection": "cv", "n_folds": 20, "starts": "many", "rtol": 1e-13}
    job = client.train(big, "rmt-pca", model="cli-cancelled", k=10, **params)
    assert run("jobs", "cancel", job.id).startswith(f"job {job.id} is cancel")
    end = command("jobs", "watch", job.id, "--json", "--url", service.url)
    assert end.returncode == ExitCode.JOB_FAILED
    assert json.loads(end.stdout)["state"] == "cancelled"
    assert f"error: job {job.id} ended as cancelled" in end.stderr


# --- datasets ------------------------------------------------------------------------------------


def test_a_dataset_is_found_by_name_trained_and_deleted(run, fails, client, tmp_path):
    rows = np.random.default_rng(5).standard_normal((6, 3))
    dataset = client.upload({"a": rows, "b": rows + 1}, name="cli by name")
    shown = json.loads(run("datasets", "show", "cli by name", "--json"))
    assert shown == client.dataset_info(dataset.id)
    assert json.loads(run("datasets", "preview", dataset.id, "--json"))["n_tasks"] == 2
    table = tmp_path / "rows.csv"
    run("datasets", "download", "cli by name", "--task", "b", "--output", str(table))
    assert len(table.read_text().splitlines()) == 7
    other = client.upload({"a": rows * 2}, name="cli by name")
    ambiguous = fails(ExitCode.ERROR, "datasets", "delete", "cli by name")
    assert dataset.id in ambiguous
    assert other.id in ambiguous
    deleted = run("datasets", "delete", other.id)
    assert deleted == f"dataset {other.id} is deleted\n"
    trained = json.loads(run("train", "cli by name", "-a", "pca", "--model", "cli-n", "--json"))
    assert trained["lineage"]["dataset_id"] == dataset.id
    assert "in-use" in fails(ExitCode.REJECTED, "datasets", "delete", dataset.id)


def test_a_name_of_a_dataset_is_looked_up_without_a_list_of_all(client, monkeypatch):
    name = "cli looked up"
    dataset = client.upload({"a": np.arange(8.0).reshape(4, 2) ** 1.1}, name=name)
    request, queries = BlockingTransport.request, []

    async def record(self, method, path, **parts):
        queries.append(dict(parts["params"]))
        return await request(self, method, path, **parts)

    monkeypatch.setattr(BlockingTransport, "request", record)
    assert find_dataset(client, name) == dataset.id
    assert [query["text"] for query in queries] == [name]
    with pytest.raises(ServiceError, match=f"did you mean '{name}'"):
        find_dataset(client, name[:-1])


# --- models --------------------------------------------------------------------------------------


def test_models_are_shown_and_compared(run, pair):
    first, second = pair
    shown = json.loads(run("models", "show", "cli-pair", "--json"))
    assert shown == second.info | {"report": second.report()}
    assert "held-out metric\tmean over tasks" in run("models", "show", "cli-pair/2")
    versions = json.loads(run("models", "versions", "cli-pair", "--json"))
    assert [item["version"] for item in versions[:2]] == [second.version, first.version]
    one, two = json.loads(run("models", "compare", "cli-pair/1", "cli-pair/2", "--json"))
    assert one["training"] == {
        metric: pytest.approx(np.mean(list(scores.values())))
        for metric, scores in first.metrics.items()
    }
    assert two["held_out"] == second.report()["evaluation"]["mean"]
    lines = run("models", "compare", "cli-pair/1", "cli-pair").splitlines()
    rows = {cells[0]: cells[1:] for cells in (line.split("\t") for line in lines)}
    assert rows[""] == ["cli-pair/1", "cli-pair/2"]
    assert rows["algorithm"] == ["pca", "logistic-regression"]
    assert rows["training rvr"][1] == "-"


@pytest.mark.slow
def test_a_model_is_downloaded_drawn_and_deleted(run, fails, client, dataset, tmp_path):
    model = client.train(dataset, "mtfl", model="cli-drawn").wait()
    run(
        "models", "download", f"{model.name}@latest" if False else model.name, "-o", "m.safetensors"
    )
    assert load_model(tmp_path / "m.safetensors").tasks == model.tasks
    listed = json.loads(run("models", "plot", model.name, "--json"))
    assert {"relations", "spectrum", "objective"} <= {one["name"] for one in listed}
    printed = json.loads(run("models", "plot", model.name, "relations", "--json"))
    assert (tmp_path / printed["file"]).read_text(encoding="utf-8").startswith("<svg")
    run("models", "plot", model.name, "spectrum", "-o", "s.png", "--theme", "dark")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    run("models", "plot", model.name, "spectrum", "-o", "s.json")
    spec = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert sum(row["share"] for row in spec["datasets"]["spectrum"]) == pytest.approx(1)
    assert "ends in one of" in fails(ExitCode.USAGE, "models", "plot", model.name, "a", "-o", "a.b")
    missing = fails(ExitCode.NOT_FOUND, "models", "plot", model.name, "gains")
    assert "no plot 'gains'" in missing
    assert "NAME/VERSION" in fails(ExitCode.USAGE, "models", "delete", model.name)


# --- suggestions ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("model", "dataset")
@pytest.mark.parametrize(
    ("code", "arguments", "suggestion"),
    [
        (ExitCode.USAGE, ("modls",), "'models'"),
        (ExitCode.USAGE, ("jobs", "wach", "job_1"), "'watch'"),
        (ExitCode.USAGE, ("jobs", "list", "--stat", "running"), "--state"),
        (ExitCode.NOT_FOUND, ("models", "show", "sharde"), "'shared'"),
        (ExitCode.NOT_FOUND, ("predict", "sharde", "-", "--task", "a"), "'shared'"),
        (ExitCode.NOT_FOUND, ("aliases", "sharde"), "'shared'"),
        (ExitCode.NOT_FOUND, ("infer", "sharde", "predict", "DATASET"), "'shared'"),
        (ExitCode.NOT_FOUND, ("datasets", "preview", "shared by test"), "'shared by tests'"),
        (ExitCode.NOT_FOUND, ("algorithms", "show", "mtffl"), "'mtfl'"),
        (ExitCode.REJECTED, ("train", "DATASET", "-a", "mtffl"), "'mtfl'"),
        (ExitCode.REJECTED, ("train", "DATASET", "-a", "pca", "-p", "kk=1"), "'k'"),
        (
            ExitCode.USAGE,
            ("train", "DATASET", "-a", "mtfl", "--target-kind", "clases"),
            "'classes'",
        ),
        (ExitCode.NOT_FOUND, ("alias", "sharde", "best", "--delete"), "'shared@best'"),
        (ExitCode.NOT_FOUND, ("models", "plot", "shared", "spectrm"), "'spectrum'"),
        (ExitCode.USAGE, ("models", "plot", "shared", "--theme", "drak"), "'dark'"),
        (ExitCode.REJECTED, ("transform", "shared", "-", "--task", "nort"), "'north'"),
        (ExitCode.USAGE, ("jobs", "list", "--state", "runing"), "'running'"),
        (ExitCode.ERROR, ("keys", "create", "--owner", "a", "--scopes", "infr"), "'infer'"),
    ],
)
@pytest.mark.quick(7)
def test_a_mistyped_name_suggests_the_right_one(
    command, service, dataset, code, arguments, suggestion
):
    named = [dataset.id if part == "DATASET" else part for part in arguments]
    end = command(*named, stdin="1,2\n", SIBLING_URL=service.url, COLUMNS="300")
    assert end.returncode == code, end
    assert suggestion in end.stderr
    assert end.stdout == ""


def test_a_mistyped_alias_suggests_the_right_one(fails, client, dataset):
    client.train(dataset, "pca", model="cli-named", k=1).wait().set_alias("production")
    text = fails(ExitCode.NOT_FOUND, "models", "show", "cli-named@prodution")
    assert "did you mean 'cli-named@production'?" in text
    text = fails(ExitCode.NOT_FOUND, "alias", "cli-named", "prodution", "--delete")
    assert "did you mean 'cli-named@production'?" in text


@pytest.mark.slow
def test_a_missing_version_says_which_there_are(fails, pair, dataset):
    name = pair[0].name
    for arguments in (
        ("models", "show", f"{name}/9"),
        ("models", "delete", f"{name}/9"),
        ("predict", f"{name}/9", __file__, "--task", "north"),
        ("infer", f"{name}/9", "predict", dataset.id),
    ):
        text = fails(ExitCode.NOT_FOUND, *arguments)
        assert f"no model '{name}' with version 9; it has the versions 2, 1" in text


@pytest.mark.slow  # several commands
def test_a_mistyped_id_suggests_the_right_one_and_another_none(fails, client, dataset):
    job = client.train(dataset, "pca", model="cli-ids", k=1)
    job.wait()
    for verb in ("show", "watch", "cancel", "logs", "delete"):
        assert f"did you mean '{job.id}'?" in fails(ExitCode.NOT_FOUND, "jobs", verb, job.id[:-1])
    for verb in ("show", "preview", "download", "delete"):
        text = fails(ExitCode.NOT_FOUND, "datasets", verb, dataset.id[:-1])
        assert f"did you mean '{dataset.id}'?" in text
    assert "did you mean" not in fails(ExitCode.NOT_FOUND, "jobs", "show", f"job_{'0' * 20}")


def test_an_error_about_something_else_suggests_no_model(fails, pair):
    text = fails(ExitCode.NOT_FOUND, "infer", pair[0].name, "predict", "ds_none")
    assert "no dataset 'ds_none'" in text
    assert "did you mean" not in text


# --- exit codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, 4), (403, 4), (404, 5), (409, 6), (422, 6), (429, 8), (500, 8), (503, 8)],
)
def test_exit_codes_follow_the_status(status, code):
    assert exit_code(ServiceError(status, "any", "detail", [])) == code


def test_exit_codes_are_in_the_help(command):
    text = " ".join(command("--help", COLUMNS="200").stdout.split())
    for code, meaning in MEANINGS.items():
        assert f"{code}: {meaning}" in text
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.slow
def test_no_service_has_an_exit_code(command):
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        end = command("jobs", "show", "job_1", "--url", url)
    assert (end.returncode, end.stdout) == (ExitCode.UNREACHABLE, "")
    assert url in end.stderr


def test_an_unknown_job_has_an_exit_code(fails):
    assert "there is no job 'job_1'" in fails(ExitCode.NOT_FOUND, "jobs", "show", "job_1")


# --- settings and completion ---------------------------------------------------------------------


def test_settings_are_shown_without_secrets(command):
    env = {
        "SIBLING_DATABASE_URL": "postgresql://ada:hush@db/x?sslpassword=hush",
        "SIBLING_BOOTSTRAP_KEY": "sib_" + "a" * 12 + "_" + "hush" * 10,
        "SIBLING_PORT": "8123",
    }
    end = command("config", "--json", check=True, **env)
    assert "hush" not in end.stdout + command("config", check=True, **env).stdout
    found = {item["variable"]: item for item in json.loads(end.stdout)}
    assert len(found) == len(Settings.model_fields) + len(CLIENT_VARIABLES)
    assert found["SIBLING_DATABASE_URL"]["value"] == "postgresql://ada:***@db/x?sslpassword=***"
    assert found["SIBLING_BOOTSTRAP_KEY"]["value"] == "***"
    assert found["SIBLING_PORT"] == {
        "variable": "SIBLING_PORT", "value": 8123, "source": "environment",
    }  # fmt: skip
    assert found["SIBLING_HOST"]["source"] == "default"


def test_settings_without_secrets_are_shown_as_they_are(monkeypatch):
    url = "sqlite:///a@b:c/sibling.db?mode=ro"
    monkeypatch.setenv("SIBLING_DATABASE_URL", url)
    shown = {item["variable"]: item["value"] for item in effective_settings(Settings())}
    assert shown["SIBLING_DATABASE_URL"] == url


def test_config_shows_the_variables_of_the_client_without_the_key(monkeypatch):
    monkeypatch.setenv("SIBLING_URL", "http://u:secret@127.0.0.1:9")
    monkeypatch.setenv("SIBLING_API_KEY", "secret")
    shown = {item["variable"]: item for item in effective_settings(Settings())}
    assert shown["SIBLING_URL"]["value"] == "http://u:***@127.0.0.1:9"
    assert shown["SIBLING_API_KEY"]["value"] == "***"
    assert shown["SIBLING_API_KEY"]["source"] == "environment"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sibling mod", "models"),
        ("sibling models sh", "show"),
        ("sibling models show shar", "shared"),
        ("sibling algorithms show mtf", "mtfl"),
        ("sibling train x -a mtf", "mtfl"),
        ("sibling models plot shared spec", "spectrum"),
    ],
)
def test_names_are_completed(command, service, model, words, expected):
    end = command(
        _SIBLING_COMPLETE="complete_bash", COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1), SIBLING_URL=service.url,
    )  # fmt: skip
    assert expected in end.stdout.split(), (end, model)


@pytest.mark.parametrize("noun", [(), ("models",), ("train",), ("keys", "create")])
def test_the_help_shows_no_types_of_flags(command, noun):
    text = command(*noun, "--help", COLUMNS="200").stdout
    assert "--help" in text
    assert "bool" not in text.lower()


def test_nothing_is_completed_without_a_service(command):
    end = command(
        _SIBLING_COMPLETE="complete_bash", COMP_WORDS="sibling models show s", COMP_CWORD="3",
        SIBLING_URL="nonsense",
    )  # fmt: skip
    assert (end.stdout.strip(), end.stderr) == ("", "")


def test_an_algorithm_is_shown_with_its_parameters(run):
    text = run("algorithms", "show", "mtfl")
    for name in ALGORITHMS["mtfl"].Params.model_fields:
        assert f"\n{name}\t" in text


def test_the_version_is_printed(command):
    assert command("--version", check=True).stdout == f"sibling {__version__}\n"


def test_a_format_that_contradicts_json_is_refused(fails):
    words = ("predict", "absent", "--task", "a", "--json", "-f", "csv")
    assert "contradicts --json" in fails(ExitCode.USAGE, *words)
