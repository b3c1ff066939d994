"""Times in cron form, by the rules of POSIX crontab."""

from datetime import UTC, datetime, timedelta

import pytest

from service.renewal.cron import Cron

SUNDAY = datetime(2026, 11, 29, 12, 30, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-11-29T12:31"),
        ("30 12 * * *", "2026-11-30T12:30"),
        ("0 3 * * 1", "2026-11-30T03:00"),
        ("0 3 * * 0", "2026-12-06T03:00"),
        ("0 3 * * 7", "2026-12-06T03:00"),
        ("*/20 13-14 * * *", "2026-11-29T13:00"),
        ("50/5 12 * * *", "2026-11-29T12:50"),
        ("5,7 */6 * * *", "2026-11-29T18:05"),
        ("0 0 1 1 *", "2027-01-01T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 29 2 */6", "2032-02-29T00:00"),  # on a Sunday, or on a Saturday: 2048
        ("0 0 13 * 5", "2026-12-04T00:00"),  # both days restricted: either is enough
        ("0 0 */10 * 5", "2026-12-11T00:00"),  # with *, both must hold
        ("0 0 31 4,12 *", "2026-12-31T00:00"),
    ],
)
def test_the_next_time_is_that_of_crontab(text, expected):
    assert Cron.parse(text).after(SUNDAY) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_a_time_is_after_itself():
    cron = Cron.parse("*/15 * * * *")
    first = cron.after(SUNDAY)
    assert cron.after(first) == first + timedelta(minutes=15)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("60 * * * *", "minute, which is from 0 to 59"),
        ("* 24 * * *", "hour, which is from 0 to 23"),
        ("* * 0 * *", "day of the month, which is from 1 to 31"),
        ("* * * 13 *", "month, which is from 1 to 12"),
        ("* * * * 8", "day of the week, which is from 0 to 7"),
        ("*/0 * * * *", "is no minute"),
        ("5-1 * * * *", "is no minute"),
        ("1- * * * *", "is no minute"),
        ("*-5 * * * *", "is no minute"),
        ("1/ * * * *", "is no minute"),
        ("1,,2 * * * *", "is no minute"),
        ("x * * * *", "is no minute"),
        ("-1 * * * *", "is no minute"),
        ("² * * * *", "is no minute"),
        ("0 0 31 2 *", "no such day"),
    ],
)
def test_what_is_no_time_is_refused_with_its_field(text, said):
    with pytest.raises(ValueError, match=said):
        Cron.parse(text)
