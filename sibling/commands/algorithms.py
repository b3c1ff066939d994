"""``sibling algorithms``: list the algorithms and describe them."""

from typing import Annotated

import typer

from sibling import Client
from sibling.client.environment import DEFAULT_URL
from sibling.commands.app import noun
from sibling.commands.names import COMPLETE_ALGORITHM, Url
from sibling.commands.output import print_json, print_list, print_table, print_text

algorithms = noun("Look at the algorithms.")


@algorithms.command(name="list")
def list_algorithms(url: Url = DEFAULT_URL) -> None:
    """List the algorithms."""
    with Client(url) as client:
        print_list(client.algorithms, "name", "title", "methods")


@algorithms.command()
def show(
    name: Annotated[
        str, typer.Argument(help="Name of an algorithm.", autocompletion=COMPLETE_ALGORITHM)
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """Show the summary and parameters of an algorithm."""
    with Client(url) as client:
        algorithm = client.algorithm(name)
    if print_json(algorithm):
        return
    print_text(
        f"{algorithm['title']} ({algorithm['name']})\n{algorithm['summary']}\n"
        f"{algorithm['reference']}\n"
    )
    fields = algorithm["params"]["properties"]
    rows = (
        (name, field.get("default", "required"), f"{field['title']}. {field['description']}")
        for name, field in fields.items()
    )
    print_table(rows, ("parameter", "default", "meaning"))
