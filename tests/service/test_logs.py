"""The log has the cause and location of errors, but no values of the data."""

import json

from service.observability.logs import configure_logs, log


def test_an_internal_error_is_logged_without_values(capsys):
    configure_logs()

    def read(password):
        return password / 2

    try:
        read("secret" + "-of-nobody")
    except TypeError as error:
        log.error("request.failed", exc_info=error)
    text = capsys.readouterr().err
    assert "secret-of-nobody" not in text
    (logged,) = json.loads(text)["exception"]
    assert logged["exc_type"] == "TypeError"
    assert [frame["name"] for frame in logged["frames"]][-1] == "read"
