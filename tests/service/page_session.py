"""Runs the examples of a Markdown page in order: ``page_session.py PAGE URL RESULTS [--fresh]``.

Blocks of `python`, `bash` and, where node is installed, `js` run in the present folder, with the
documented address of the service replaced by ``URL``. Blocks of Python share their names, as in a
notebook, unless they are fresh. A block of `text` right after an example is the output that the
page shows. ``RESULTS`` becomes a JSON list of what was run; the first failure is that of this
program.
"""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

DOCUMENTED_ADDRESS = "127.0.0.1:8000"
EXAMPLE = r"^ *```(?P<language>python|bash|js)\n(?P<code>.*?)^ *```$"
OUTPUT = r"(?:\n+^ *```text\n(?P<shown>.*?)^ *```$)?"
#: A command that needs no shell.
SIBLING = r"sibling [^|<>&;$\"]*"


def main(page, url, results, *options):
    os.environ["SIBLING_URL"] = url
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    text = Path(page).read_text(encoding="utf-8")
    text = text.replace(f"http://{DOCUMENTED_ADDRESS}", url)
    if url.startswith("https"):
        # tritonclient takes no URL
        text = text.replace(f'"{DOCUMENTED_ADDRESS}"', f"{url[8:]!r}, ssl=True")
    text = text.replace(DOCUMENTED_ADDRESS, urlsplit(url).netloc)
    done, names = [], {}
    for block in re.finditer(EXAMPLE + OUTPUT, text, re.MULTILINE | re.DOTALL):
        if "--fresh" in options:
            names = {}
        if block["language"] == "js":
            if shutil.which("node") is None:
                continue
            output = run_program(["node", "--input-type=module"], block["code"])
        elif block["language"] == "bash":
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
    lines = code.replace("\\\n", " ").splitlines()
    if all(re.fullmatch(SIBLING, line) for line in lines):
        return "".join(run_command(line) for line in lines)
    return run_program(["bash", "-eu", "-o", "pipefail"], code)


def run_command(line):
    """Run the command of the project in this process, which takes a fraction of the time."""
    from service import cli

    status = 0
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with patch.object(sys, "argv", shlex.split(line)), patch.object(sys, "stdout", output):
        try:
            cli.main()
        except SystemExit as end:
            status = end.code
    printed = output.buffer.getvalue().decode()
    if status:
        raise SystemExit(f"exit code {status} of\n{line}\n{printed}")
    return printed


def run_program(command, code):
    done = subprocess.run(command, input=code, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode} of\n{code}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
