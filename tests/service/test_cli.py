"""The command line, as a user runs it."""

import csv
import gzip
import json
import re
import signal
import socket
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from sibling import Client
from sibling.commands.exit_codes import ExitCode

RNG = np.random.default_rng(0)


@pytest.fixture
def run(command, tmp_path):
    """``run(*arguments, url=...)`` runs the command and returns the completed process."""

    def run_command(*arguments, url=None, standard_input="", **env):
        address = () if url is None else ("--url", url)
        env = {"SIBLING_DATA_DIR": str(tmp_path / "data")} | env
        return command(*arguments, *address, stdin=standard_input, cwd=tmp_path, **env)

    return run_command


def assert_fails(end, *words, code=None):
    """Check that a command has failed with a message and without a traceback."""
    failed = end.returncode not in (0, ExitCode.USAGE)
    assert failed if code is None else end.returncode == code, end
    assert "Traceback" not in end.stderr
    for word in words:
        assert word in end.stderr


@pytest.fixture
def schools(tmp_path):
    path = tmp_path / "schools.csv"
    lines = ["school,age,height,score"]
    for school in ("east [north]", "west"):
        lines += [f"{school},{a:.3f},{b:.3f},{c:.3f}" for a, b, c in RNG.standard_normal((9, 3))]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_file_is_uploaded_looked_at_and_prepared_as_declared(run, service, tmp_path):
    rows = [(t, a, s) for t in ("n", "[s]") for a in (41, 52, 63, "unknown") for s in "FM"]
    lines = ["place:age:sex:sick"]
    lines += [f"{t}:{a}:{s}:{'yes' if s == 'F' else 'no'}" for t, a, s in rows]
    (tmp_path / "people.tsv").write_text("\n".join(lines), encoding="latin-1")
    options = ("--task-column", "place", "--target-column", "sick")
    read = ("--read", "delimiter=:", "-r", "missing_marker=unknown", "-r", "missing_marker=-")
    uploaded = run("datasets", "upload", "people.tsv", *options, *read, url=service.url)
    assert uploaded.returncode == 0, uploaded
    assert "2 tasks" in uploaded.stdout
    assert "note: read with delimiter ':', 4 missing values, such as 'unknown'" in uploaded.stderr
    assert "note:" not in uploaded.stdout
    dataset = re.search(r"ds_\w+", uploaded.stdout).group()
    shown = run("datasets", "preview", dataset, "-t", "[s]", "--rows", "4", url=service.url).stdout
    assert "task [s]: 8 rows, 2 columns, 2 classes: no (4), yes (4)" in shown
    assert re.search(r"age\tnumber\t25%\t3\t41\t63\t█", shown)
    assert re.search(r"sex\tcategory\t0%\t2\t.*\tF \(4\), M \(4\)", shown)
    assert re.search(r"mtda\tyes", shown)
    assert "okl\tno: " not in shown
    part = run("datasets", "combine", dataset, dataset, "--name", "x", "-t", "n", url=service.url)
    assert "1 tasks, 16 rows" in part.stdout
    trained = run(
        "train", "people.tsv", "-a", "logistic-regression", "--model", "people", *options, *read,
        "--preparation", '{"scale": "robust"}', url=service.url,
    )  # fmt: skip
    assert trained.returncode == 0, trained
    with Client(service.url) as client:
        model = client.model("people")
        assert model.info["preparation"]["recipe"]["scale"] == "robust"
        assert model.predict([{"age": None, "sex": "F"}], task="[s]").tolist() == ["yes"]
    assert_fails(
        run("datasets", "upload", "people.tsv", "-r", "x", url=service.url), "NAME=VALUE", code=2
    )


def test_train_list_and_transform(run, service, schools, tmp_path):
    options = ("--task-column", "school", "--target-column", "score", "--seed", "3")
    trained = run(
        "train", str(schools), "-a", "rmt-pca", "--param", "k=1", "-p", "lam=0.5",
        "-p", "lam_scale=absolute", "--model", "cli", *options, url=service.url,
    )  # fmt: skip
    assert trained.returncode == 0, trained
    assert "model cli, version 1" in trained.stdout
    assert re.search(r"rvr\t0\.\d+", trained.stdout)
    with Client(service.url) as client:
        model = client.model("cli")
        lineage = model.info["lineage"]
        assert lineage["seed"] == 3
        assert {"k": 1, "lam": 0.5, "lam_scale": "absolute"}.items() <= lineage["params"].items()

        listed = run("models", url=service.url)
        assert re.search(
            r"^\s*cli\s+1\s+rmt-pca\s+transform, inverse_transform", listed.stdout, re.MULTILINE
        )
        assert lineage["job_id"] in run("jobs", url=service.url).stdout
        assert lineage["dataset_id"] in run("datasets", url=service.url).stdout
        assert "common-pca" in run("algorithms", url=service.url).stdout

        X = RNG.standard_normal((4, 2))
        np.save(tmp_path / "rows.npy", X)
        np.savetxt(tmp_path / "rows.csv", X, delimiter=",")
        expected = model.transform(X, task="east [north]")
    common = ("--task", "east [north]")
    for rows, name, output in (
        ("rows.npy", "cli", "out.npy"),
        ("rows.csv", "cli/1", "out.csv"),
        ("rows.npy", "cli/1", None),
    ):
        target = ("-o", output) if output else ()
        end = run("transform", name, rows, *common, *target, url=service.url)
        assert end.returncode == 0, end
        if output == "out.npy":
            result = np.load(tmp_path / output)
        elif output:
            result = np.loadtxt(tmp_path / output, delimiter=",", ndmin=2)
        else:
            result = np.loadtxt(end.stdout.splitlines(), delimiter=",", ndmin=2)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
def test_integer_targets_cause_a_warning_unless_their_kind_is_set(run, service, tmp_path):
    lines = [
        "task,x,z,y",
        *(f"a,{x:.3f},{z:.3f},{int(x > 0)}" for x, z in RNG.normal(size=(16, 2))),
    ]
    (tmp_path / "codes.csv").write_text("\n".join(lines), encoding="utf-8")
    common = ("train", "codes.csv", "--target-column", "y")
    noted = run(*common, "-a", "ridge", "--model", "cli-numbers", url=service.url)
    assert "warning: all targets are integers with 2 distinct values (0, 1)" in noted.stderr
    said = ("--target-kind", "classes", "-a", "logistic-regression", "--model", "cli-classes")
    end = run(*common, *said, url=service.url)
    assert end.returncode == 0, end
    assert "class codes" not in end.stderr


def test_an_alias_is_created_used_listed_and_deleted(run, client, service, dataset, tmp_path):
    first, _ = (client.train(dataset, "pca", model="cli-aliased", k=k).wait() for k in (1, 2))
    np.save(tmp_path / "rows.npy", RNG.standard_normal((3, 5)))
    made = run("alias", "cli-aliased/1", "champion", url=service.url)
    assert made.stdout == "cli-aliased@champion is version 1\n"
    end = run("transform", "cli-aliased@champion", "rows.npy", "--task", "north", url=service.url)
    result = np.loadtxt(end.stdout.splitlines(), delimiter=",", ndmin=2)
    X = np.load(tmp_path / "rows.npy")
    np.testing.assert_array_equal(result, first.transform(X, task="north"))
    assert re.search(
        r"champion\s+1$", run("aliases", "cli-aliased", url=service.url).stdout.strip()
    )
    moved = run("alias", "cli-aliased", "champion", url=service.url)
    assert moved.stdout == "cli-aliased@champion is version 2\n"
    deleted = run("alias", "cli-aliased", "champion", "--delete", url=service.url)
    assert deleted.stdout == "cli-aliased@champion is deleted\n"
    assert_fails(run("aliases", "nobody", url=service.url), "no model 'nobody'")
    assert_fails(run("alias", "cli-aliased", "v2", url=service.url), "'v2' is reserved")
    assert_fails(run("alias", "cli-aliased/x", "a", url=service.url), "NAME/VERSION", code=2)


def test_infer_applies_a_model_to_a_whole_file(run, client, service, dataset, tmp_path):
    model = client.train(dataset, "pca", model="cli-batch", k=2).wait()
    X = {name: RNG.standard_normal((7, 5)) for name in ("here", "süd")}
    np.savez(tmp_path / "rows.npz", **{f"{name}/X": rows for name, rows in X.items()})
    tasks = ("--task", "here=north", "-t", "süd")
    end = run(
        "infer", "cli-batch/1", "transform", "rows.npz", *tasks, "-o", "out.parquet",
        url=service.url,
    )  # fmt: skip
    assert end.returncode == 0, end
    assert re.search(r"transform by cli-batch, version 1: 14 rows in [\d.e-]+ s", end.stdout)
    made = re.search(r"^dataset (ds_\w+)$", end.stdout, re.MULTILINE).group(1)
    assert client.dataset(made).tasks == ("here", "süd")
    table = pq.read_table(tmp_path / "out.parquet")
    expected = [model.transform(X["here"], task="north"), model.transform(X["süd"], task="süd")]
    np.testing.assert_array_equal(np.array(table["outputs"].to_pylist()), np.concatenate(expected))
    again = run("infer", "cli-batch", "transform", made, "--no-dataset", url=service.url)
    assert_fails(again, "task 'here' of the dataset: unknown task 'here'")
    bare = run(
        "infer", "cli-batch", "inverse_transform", made, "-t", "süd", "--no-dataset",
        url=service.url,
    )  # fmt: skip
    assert re.search(r"^outputs job_\w+$", bare.stdout, re.MULTILINE)
    assert "dataset" not in bare.stdout


@pytest.fixture(scope="module")
def cameras(client):
    """A classifier of two tasks with different numbers of columns; a label has a comma."""
    rng = np.random.default_rng(7)
    X = {"door": rng.standard_normal((12, 3)), "hall": rng.standard_normal((12, 5))}
    y = {"door": ["ada", "bo, jr"] * 6, "hall": ["ada", "cy", "dé"] * 4}
    dataset = client.upload(X, y, name="cameras")
    return client.train(dataset, "lda-rt", model="cli-cameras", d=1).wait(), X["hall"]


def run_rows(run, service, method, body, *options):
    """Run a method on rows from standard input; return its output."""
    end = run(
        method, "cli-cameras", "--task", "hall", *options, url=service.url, standard_input=body
    )
    assert end.returncode == 0, end
    return end.stdout


@pytest.mark.parametrize("method", ["predict", "distances", "transform"])
def test_every_method_writes_every_format(run, service, cameras, tmp_path, method):
    model, X = cameras
    expected = getattr(model, method)(X, task="hall")
    body = "\n".join(",".join(map(repr, row)) for row in X.tolist())

    lines = list(csv.reader(run_rows(run, service, method, body, "-").splitlines()))
    if method == "distances":
        assert lines.pop(0) == ["ada", "cy", "dé"]
    cells = np.array(lines).astype(expected.dtype).reshape(expected.shape)
    np.testing.assert_array_equal(cells, expected)

    result = json.loads(run_rows(run, service, method, body, "--format", "json"))
    assert (result["model"], result["version"], result["task"]) == (
        model.name,
        model.version,
        "hall",
    )
    np.testing.assert_array_equal(np.array(result["outputs"]), expected)
    columns = ["ada", "cy", "dé"] if method == "distances" else None
    assert result.get("classes") == columns

    run_rows(run, service, method, body, "-o", str(tmp_path / "out.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    run_rows(run, service, method, body, "-o", str(tmp_path / "out"), "-f", "json")
    assert json.loads((tmp_path / "out").read_text(encoding="utf-8")) == result


def test_rows_come_from_every_kind_of_file_and_have_their_own_tasks(run, client, service, tmp_path):
    table = pd.DataFrame(
        {
            "task": ["east", "west"] * 12,
            "age": RNG.normal(60, 9, 24).round(3),
            "sex": RNG.choice(["F", "M"], 24),
        }
    )
    table["y"] = table["age"] / 10 + (table["sex"] == "F")
    dataset = client.upload(table, target_column="y", name="rows of the command")
    model = client.train(dataset, "ridge", model="cli-rows").wait()
    rows = table.drop(columns="y")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_csv(tmp_path / "rows.csv.gz", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_feather(tmp_path / "rows.feather")
    rows.to_json(tmp_path / "rows.json", orient="records")
    rows.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    expected = model.predict(rows).tolist()
    rows.to_excel(tmp_path / "rows.xlsx", index=False)
    for name in ("csv", "csv.gz", "parquet", "feather", "json", "jsonl", "xlsx"):
        end = run("predict", "cli-rows", f"rows.{name}", url=service.url)
        assert [float(line) for line in end.stdout.splitlines()] == expected, (name, end.stderr)
    (tmp_path / "rows.xlsx").write_bytes(b"PK\x03\x04")
    end = run("predict", "cli-rows", "rows.xlsx", url=service.url)
    assert_fails(end, "is not a valid file")


def test_labels_with_commas_are_quoted_and_a_byte_order_mark_is_skipped(run, service, cameras):
    model, _ = cameras
    rows = np.arange(6.0).reshape(2, 3)
    body = "\ufeff0,1,2\r\n3,4,5\r\n"
    version = f"{model.name}/{model.version}"
    end = run("predict", version, "--task", "door", url=service.url, standard_input=body)
    found = [cells for (cells,) in csv.reader(end.stdout.splitlines())]
    assert found == model.predict(rows, task="door").tolist()
    end = run("distances", "cli-cameras", "--task", "door", url=service.url, standard_input=body)
    assert end.stdout.startswith('ada,"bo, jr"\n')


@pytest.mark.usefixtures("cameras")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", ("standard input is empty",)),
        ("a,b\n1,2\n", ("task 'door' expects rows of 3 numbers", "a table of 2 columns")),
        ("a,b,a\n1,2,3\n", ("2 columns are named 'a'",)),
        ("1,2\n", ("task 'door' expects rows of 3 numbers", "a table of 2 columns")),
        ("1,2,3\n1,2\n", ("row 1 has 2 cells",)),
        ("1,2,x\n1,2,3\n4,5,y\n", ("row 1, column 'x': expected a number, got 'y'",)),
        ("1,2,nan\n", ("task 'door', row 0, column 2 is nan",)),
    ],
)
@pytest.mark.usefixtures("cameras")
def test_rejected_rows_are_reported_in_a_sentence(run, service, body, words):
    end = run("predict", "cli-cameras", "--task", "door", url=service.url, standard_input=body)
    assert_fails(end, *words)


def test_train_accepts_a_dataset_id_and_the_url_from_the_environment(run, service, dataset):
    end = run("train", dataset.id, "-a", "pca", "--model", "cli-id", SIBLING_URL=service.url)
    assert end.returncode == 0, end
    assert "model cli-id, version 1" in end.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("DATASET", "-a", "pca", "-p", "k=0"), ("error: invalid-params", "--param k")),
        (("DATASET", "-a", "pca", "-p", "model=1"), ("--param model",)),
        (("DATASET", "-a", "no"), ("unknown algorithm 'no'", "pca")),
        (("ds_no", "-a", "pca"), ("no dataset 'ds_no'",)),
        (("none.csv", "-a", "pca"), ("none.csv",)),
        (("notes.pdf", "-a", "pca"), ("notes.pdf", ".csv, .npz")),
        (("schools.csv", "-a", "pca", "--task-column", "town"), ("town",)),
    ],
)
@pytest.mark.usefixtures("schools")
def test_a_rejected_training_is_reported_in_a_sentence(run, service, dataset, arguments, words):
    named = [dataset.id if part == "DATASET" else part for part in arguments]
    assert_fails(run("train", *named, url=service.url), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shared", "narrow.npy", "--task", "north"), ("task 'north' expects rows of 5", "(2, 3)")),
        (("shared", "narrow.npy", "--task", "x"), ("known tasks: 'north'",)),
        (("shared", "objects.npy", "--task", "north"), ("error: ",)),
        (("shared", "words.csv", "--task", "north"), ("error: ",)),
        (("shared", "damaged.csv.gz", "--task", "north"), ("'damaged.csv.gz' is not a valid .gz",)),
        (("shared", "none.npy", "--task", "north"), ("none.npy",)),
        (("none", "narrow.npy", "--task", "north"), ("no model 'none'",)),
    ],
)
@pytest.mark.usefixtures("model")
def test_a_rejected_transform_is_reported_in_a_sentence(run, service, tmp_path, arguments, words):
    np.save(tmp_path / "narrow.npy", np.ones((2, 3)))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    (tmp_path / "words.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "damaged.csv.gz").write_bytes(gzip.compress(b"1,2\n")[:10] + b"\xff" * 20)
    assert_fails(run("transform", *arguments, url=service.url), *words)


def test_wrong_usage_is_reported_in_a_sentence(run):
    assert_fails(run("serve", "--port", "99999"), "--port", "65535", code=2)
    end = run("train", "a.csv", "-a", "pca", "-p", "k")
    assert_fails(end, "NAME=VALUE", code=2)
    end = run("transform", "shared/x", "rows.npy", "--task", "a")
    assert_fails(end, "NAME/VERSION", code=2)
    end = run("predict", "shared", "rows.npy", "--task", "a", "-o", "out.txt")
    assert_fails(end, "out.txt", "--format", code=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("http://127.0.0.1:1", "sibling serve"),
        ("nonsense", "write it as http"),
        ("http://[::bad", "write it as http"),
    ],
)
def test_an_unreachable_service_is_reported_in_a_sentence(run, url, advice):
    assert_fails(run("models", url=url), "error: cannot reach the service", advice)


AWAY = "postgresql://127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        (("serve",), {"SIBLING_WORKER_SLOTS": "-1"}, "error: SIBLING_WORKER_SLOTS: "),
        (("serve", "--host", "0.0.0.0"), {}, "SIBLING_ALLOW_OPEN_NETWORK"),
        (("serve",), {"SIBLING_REQUIRE_KEYS": "1"}, "or unset SIBLING_REQUIRE_KEYS"),
        (("serve", "--port", "0", "--data-dir", __file__), {}, "error: the database"),
        (
            ("serve", "--port", "0"),
            {"SIBLING_DATABASE_URL": AWAY},
            "error: the database cannot be used",
        ),
        (("migrate",), {"SIBLING_DATABASE_URL": AWAY}, "error: the database cannot be migrated"),
    ],
)
@pytest.mark.quick(2)
def test_serve_reports_why_it_cannot_start(forked_command, arguments, env, words):
    assert_fails(forked_command(*arguments, **env), words)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite://", "a database in memory cannot be shared with workers"),
        ("sqlite:///:memory:", "a database in memory cannot be shared with workers"),
        ("mysql://host/name", "mysql is not supported"),
        ("postgresql+asyncpg://host/name", "postgresql+asyncpg is not supported"),
        ("nonsense", "no URL"),
    ],
)
def test_a_database_that_cannot_be_used_is_told(run, url, reason):
    expected = "expected postgresql://USER@HOST/NAME or sqlite:///FILE"
    end = run("migrate", SIBLING_DATABASE_URL=url)
    assert_fails(end, f"error: SIBLING_DATABASE_URL: {reason}; {expected}\n")


@pytest.mark.parametrize("arguments", [("list",), ("create", "--owner", "ada")])
def test_keys_of_a_database_that_cannot_be_read_are_a_sentence(run, tmp_path, arguments):
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 16)
    for url in (AWAY, f"sqlite:///{damaged}"):
        end = run("keys", *arguments, SIBLING_DATABASE_URL=url)
        assert_fails(end, "error: the database cannot be used: ")


def test_a_file_of_another_program_is_not_restored(run, tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE jobs (x)")
    end = run("restore", tmp_path / "other.db", SIBLING_DATA_DIR=str(tmp_path / "new"))
    assert_fails(end, "other.db cannot be restored: table jobs already exists")


def test_serve_reports_that_the_port_is_in_use(forked_command):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert_fails(forked_command("serve", "--port", str(port)), f"port {port} is taken")
        assert_fails(forked_command("serve", SIBLING_PORT=port), f"port {port} is taken")


@pytest.mark.sql
def test_serve_rejects_an_unknown_schema_version(run, forked_command, empty_database):
    url = empty_database.url
    if not empty_database.is_sqlite:  # the service and its commands migrate SQLite
        assert_fails(run("keys", "list", SIBLING_DATABASE_URL=url), "run 'sibling migrate'")
    assert run("migrate", SIBLING_DATABASE_URL=url).returncode == 0
    with empty_database.write() as session:
        session.execute(sa.text("UPDATE alembic_version SET version_num = 'of the future'"))
    assert_fails(
        forked_command("serve", "--port", "0", SIBLING_DATABASE_URL=url), "error: ", "of the future"
    )


@pytest.mark.slow
def test_serve_uses_a_free_port_and_sqlite_and_stops_at_ctrl_c(launch_on):
    with launch_on("", is_forked=False, SIBLING_WORKER_SLOTS=1) as service:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", service.url)
        assert (service.data_dir / "sibling.db").exists()
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(120) in (0, 130, -signal.SIGINT)
        assert "Traceback" not in service.log()


def test_help_lists_the_commands(run):
    end = run("--help")
    assert end.returncode == 0
    for command in ("serve", "train", "transform", "predict", "distances", "demo", "migrate"):
        assert command in end.stdout


def test_a_report_has_no_empty_row_and_shows_undefined_scores(capsys):
    from sibling.commands import models as cli

    evaluation = {"mean": {"auc": None, "rmse": 0.5}, "over_rows": {"auc": None, "rmse": 0.25}}
    tried = {"params": {"k": 1}, "mean": {"auc": None}, "n_splits": 5}
    search = {"metric": "auc", "best": 0, "candidates": [tried]}
    cli.print_report({"search": search, "comparison": None, "evaluation": evaluation})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["k=1", "undefined", "5", "*"] in lines
    assert ["auc", "undefined", "undefined"] in lines
    assert ["rmse", "0.5", "0.25"] in lines
