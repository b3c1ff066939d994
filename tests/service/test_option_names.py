"""Messages of the command name its options, not the names of the API."""

import inspect
import json
from typing import Annotated

import numpy as np
import pandas as pd
import pytest
import typer

from sibling.commands.exit_codes import ExitCode
from sibling.commands.option_names import use_options_of, with_option_names

RIDGE = ("--task-column", "shop", "--target-column", "y", "-a", "ridge")


@pytest.fixture
def table(tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 2))
    frame = pd.DataFrame(rows, columns=["x", "y"]).assign(shop=["a", "b"] * 6)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return "rows.csv"


@pytest.mark.parametrize(
    ("arguments", "expected", "absent"),
    [
        ((), "--task-column=", "task_column"),
        (
            ("--task-column", "shop", "-a", "auto"),
            "--target-column",
            "target_column",
        ),
        (
            (*RIDGE, "-p", "gamma=-1"),
            "--param gamma:",
            "/params",
        ),
        (
            (*RIDGE, "--class-weight", json.dumps({"ill": -1.0})),
            "--class-weight",
            "class_weight",
        ),
        (
            (*RIDGE, "--memory-mb", "-5"),
            "--memory-mb",
            "memory_mb",
        ),
    ],
)
def test_a_message_names_the_option_of_the_command(fails, table, arguments, expected, absent):
    algorithm = () if "-a" in arguments else ("-a", "ridge")
    message = fails(ExitCode.REJECTED, "train", table, *algorithm, *arguments)
    assert expected in message
    assert absent not in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a column 'task', or the query parameter 'task'", "a column 'task', or --task"),
        ("new_tasks=common answers", "--new-tasks=common answers"),
        ("the column 'new_tasks' is text", "the column 'new_tasks' is text"),
        ("left_out and /task/x.csv stay", "left_out and /task/x.csv stay"),
    ],
)
def test_only_names_of_options_are_replaced(text, expected):
    def command(
        *,
        task: Annotated[str | None, typer.Option(help="Task.")] = None,
        new_tasks: Annotated[str | None, typer.Option(help="New tasks.")] = None,
    ) -> None:
        """Have options."""

    use_options_of(inspect.signature(command))
    assert with_option_names(text) == expected
