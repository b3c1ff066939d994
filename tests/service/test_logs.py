"""The log tells what went wrong, and where, but nothing of what was worked on."""

import json

from service.observability.logs import configure_logs, log


def test_a_defect_is_told_without_the_values_it_was_met_with(capsys):
    configure_logs()

    def read(password):
        return password / 2

    try:
        read("secret" + "-of-nobody")
    except TypeError as error:
        log.error("request.failed", exc_info=error)
    text = capsys.readouterr().err
    assert "secret-of-nobody" not in text
    (told,) = json.loads(text)["exception"]
    assert told["exc_type"] == "TypeError"
    assert [frame["name"] for frame in told["frames"]][-1] == "read"
