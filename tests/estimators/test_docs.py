"""The examples of docs/how-to/python.md, run in order."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import sklearn

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "python.md"


@pytest.mark.filterwarnings("error")
def test_the_examples_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    printed, names = [], {}
    with sklearn.config_context():  # the page changes the configuration
        for code in blocks:
            with redirect_stdout(io.StringIO()) as output:
                exec(code, names)
            printed.append(output.getvalue())
    fit, by_task, table, choice, learned, files, search = printed
    assert "0.98" in fit
    assert by_task.startswith("{'camera b': array(['")
    assert table.count(".") == 2
    assert choice.startswith(("helps", "equal", "unclear"))
    assert learned.startswith("(3, 6) (3, 6) [[")
    assert learned.endswith("True\n")
    assert files == "('north', 'south', 'west', 'east') True\n"
    assert search.startswith("{'mtfl__gamma': 0.1}")
