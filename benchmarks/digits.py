"""Six images of each digit: subspaces of RMT-PCA, of PCA of each digit, and of one PCA for all.

Each of the ten digits is a task. The score is the share of the variance of unseen images that
eight dimensions retain, as in ``make demo``, with the same rows and options.
"""

import warnings
from collections.abc import Iterator

import numpy as np

from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Plot, Table
from service.operations.demo import COUPLED, N_DIMENSIONS, digits
from sibling import RMTPCA, CommonPCA, FitWarning, TaskPCA


def run(context: Context) -> Iterator[Block]:
    """Yield the share of each digit, and whether every digit gains."""
    del context  # one form: it takes seconds
    train, test = digits()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # six rows do not determine eight directions
        models = {
            "together": RMTPCA(k=N_DIMENSIONS, **COUPLED).fit(train),
            "separate": TaskPCA(k=N_DIMENSIONS).fit(train),
            "pooled": CommonPCA(k=N_DIMENSIONS).fit(train),
        }
    shares = {
        label: {
            task: float(model.transform(X, tasks=task).var(axis=0).sum() / X.var(axis=0).sum())
            for task, X in test.items()
        }
        for label, model in models.items()
    }
    means = {label: float(np.mean([*by_task.values()])) for label, by_task in shares.items()}
    yield Table(
        columns=("digit", "method", "retained variance in %"),
        rows=tuple(
            (task.removeprefix("digit "), label, round(100 * share, 1))
            for task in test
            for label, share in ((one, shares[one][task]) for one in shares)
        ),
        plot=Plot(labels="digit", values="retained variance in %", groups="method"),
    )
    for label in ("separate", "pooled"):
        n_better = sum(shares["together"][task] > shares[label][task] for task in test)
        yield Claim(
            text=f"Learned together, {means['together']:.1%} of the variance is retained, against "
            f"{means[label]:.1%} {label}; {n_better} of {len(test)} digits gain.",
            is_confirmed=means["together"] > means[label] and n_better > len(test) / 2,
        )
