"""Losses of a day, from the rows that champion and challenger have predicted."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from service.renewal.trial import usual_losses, weighed_day

DAY = datetime(2026, 11, 1, tzinfo=UTC)


def test_a_huge_target_counts_as_the_largest_loss_of_both():
    def row(target):
        return SimpleNamespace(
            task="a", prediction=0.0, champion=1.0, challenger=0.0, target=target
        )

    huge = [row(target) for target in (1e200, -1.7e308)]
    assert usual_losses([row(1.0)] * 30 + huge)[""] == pytest.approx(1 / 0.4549)
    assert weighed_day(huge, DAY, usual_losses(huge * 20), is_rate=False)["mean"] == 0
    of_both = weighed_day([row(0.0), *huge], DAY, {"": 1.0}, is_rate=False)
    assert of_both["mean"] == pytest.approx(1 / 3)
