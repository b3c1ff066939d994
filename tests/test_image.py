"""The image is built from files that git and .dockerignore leave to it."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_the_image_copies_is_in_the_context_of_its_build():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("COPY ") and "--from=" not in line]
    copied = {word.rstrip("/") for one in words for word in one[1:-1] if not word.startswith("--")}
    assert {"pyproject.toml", "hatch_build.py", "algorithms"} <= copied
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    missing = [one for one in copied if not any(Path(one).is_relative_to(a) for a in allowed)]
    assert missing == []
    assert all((ROOT / one).exists() for one in copied)
