"""Runs the examples of a Markdown page in order: ``page_session.py PAGE URL RESULTS [--fresh]``.

Blocks of `python` and `bash` run in the present folder, with the documented address of the service
replaced by ``URL``. Blocks of Python share their names, as in a notebook, unless they are fresh. A
block of `text` right after an example is the output that the page shows. ``RESULTS`` becomes a JSON
list of what was run; the first failure is that of this program.
"""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

DOCUMENTED_URL = "http://127.0.0.1:8000"
EXAMPLE = r"^ *```(?P<language>python|bash)\n(?P<code>.*?)^ *```$"
OUTPUT = r"(?:\n+^ *```text\n(?P<shown>.*?)^ *```$)?"


def main(page, url, results, *options):
    os.environ["SIBLING_URL"] = url
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    text = Path(page).read_text(encoding="utf-8").replace(DOCUMENTED_URL, url)
    done, names = [], {}
    for block in re.finditer(EXAMPLE + OUTPUT, text, re.MULTILINE | re.DOTALL):
        if "--fresh" in options:
            names = {}
        if block["language"] == "bash":
            output = run_bash(block["code"])
        else:
            # tracebacks have the line of the page
            lines_before = "\n" * text.count("\n", 0, block.start("code"))
            output = run_python(compile(lines_before + block["code"], page, "exec"), names)
        done.append({**block.groupdict(), "output": output})
    Path(results).write_text(json.dumps(done), encoding="utf-8")


def run_python(code, names):
    with redirect_stdout(io.StringIO()) as output:
        exec(code, names)
    return output.getvalue()


def run_bash(code):
    shell = ["bash", "-eu", "-o", "pipefail"]
    done = subprocess.run(shell, input=code, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode} of\n{code}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
