"""Losses of margins against their definitions: slopes by differences, conjugates by a grid."""

import numpy as np
import pytest

from algorithms.numerics.losses import Hinge, Logistic, ProximalHinge

#: Margins off the kinks of the losses, which lie at 0.8, 1.0 and 1.3.
MARGINS = np.linspace(-3.05, 3.95, 71)
LOSSES = [Logistic(), Hinge(), ProximalHinge(np.array(0.4), mu=0.5)]
over_losses = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


@over_losses
def test_the_multiplier_is_the_negative_slope(loss) -> None:
    h = 1e-6
    slopes = (loss.value(MARGINS + h) - loss.value(MARGINS - h)) / (2 * h)
    np.testing.assert_allclose(loss.multiplier(MARGINS), -slopes, atol=1e-6)


@over_losses
def test_the_conjugate_is_the_maximum_of_its_definition(loss) -> None:
    m = np.linspace(-20, 20, 400_001)  # holds every kink
    for p in (0.05, 0.4, 0.9):
        expected = np.max(-p * m - loss.value(m))
        assert loss.conjugate(np.array(p)) == pytest.approx(expected, abs=1e-8)
