"""Periods of the evidence of a monitor: their rows stay, however late targets come."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from algorithms.evaluation.monitoring.errors import Promise
from service.monitoring.report import _errors, _periods
from service.storage.tables import MonitorRow

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def monitor(days=90):
    return MonitorRow(id="mon", days=days, created_at=START)


class Labelled(NamedTuple):
    """A row with its target, as the report reads it."""

    created_at: datetime
    labelled_at: datetime
    task: str = "a"
    prediction: float = 0.0
    target: float = 3.0


def labelled(day, label_day):
    return Labelled(START + day * DAY, START + label_day * DAY)


def days_of(periods):
    return [((period.start - START) / DAY, period.days) for period in periods]


def test_the_present_period_and_the_one_before_it_are_reported():
    assert days_of(_periods(monitor(), START + 10 * DAY, START)) == [(0, 45)]
    assert days_of(_periods(monitor(), START + 50 * DAY, START)) == [(0, 45), (45, 45)]
    moment = START + 140 * DAY
    assert days_of(_periods(monitor(), moment, moment - 90 * DAY)) == [(90, 45), (135, 45)]


def test_periods_are_shorter_where_the_first_rows_are_gone():
    moment = START + 140 * DAY
    since = moment - 20 * DAY
    (first, _), (_, days) = days_of(_periods(monitor(), moment, since))
    assert first == 123.75
    assert days == 45 / 4
    periods = _periods(monitor(), moment, moment + DAY)  # a clock that goes ahead
    assert periods[0].days < 1 / 12
    assert periods[0].alpha() == pytest.approx(0.025 * periods[0].days / 365)


def test_targets_that_come_in_the_next_period_count_in_that_of_their_rows():
    first, second = _periods(monitor(), START + 80 * DAY, START)
    rows = [labelled(day, day + 30) for day in range(40)]
    promises = {"a": Promise(1.0, 100)}
    by_task, _ = _errors(rows, promises, first, is_rate=False)
    assert by_task["a"].n_rows == 40
    assert 31 < by_task["a"].alarm_day < 45
    assert _errors(rows, promises, second, is_rate=False) == ({}, None)
    early = [labelled(50, 20), labelled(51, 90)]
    by_task, _ = _errors(early, promises, second, is_rate=False)
    assert by_task["a"].n_rows == 2


@pytest.mark.parametrize("target", [1e100, -1e155, 1.7e308])
def test_a_huge_target_counts_as_one_outlier(target):
    (period,) = _periods(monitor(), START + 10 * DAY, START)
    rows = [labelled(day / 10, day / 10)._replace(target=1.0) for day in range(90)]
    rows[40] = rows[40]._replace(target=target)
    by_task, of_all = _errors(rows, {"a": Promise(1.0, 100)}, period, is_rate=False)
    assert by_task["a"].alarm_day is None
    assert 1e70 < of_all.low**0.5 < of_all.high**0.5 < 1e76
