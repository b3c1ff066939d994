"""Rows of numbers: one for each key, of one process or of several."""

import os

import numpy as np
import pytest

from service.inference.counts import Counts


def keys(n, name="m"):
    return [("me", name, i, "predict") for i in range(n)]


@pytest.mark.parametrize("is_shared", [False, True])
def test_each_key_has_a_row_of_its_own(tmp_path, is_shared):
    counts = Counts(3, tmp_path if is_shared else None)
    for i, key in enumerate(keys(10)):
        counts.own(key)[:] += (i, 1, 0)
    counts.own(keys(10)[3])[1] += 5
    found = {key: np.sum(rows, axis=0).tolist() for key, rows in counts.all().items()}
    assert found == {key: [i, 6 if i == 3 else 1, 0] for i, key in enumerate(keys(10))}


def test_the_longest_unused_is_forgotten_and_its_row_is_empty_again(tmp_path):
    counts = Counts(1, tmp_path)
    old, kept, *others = keys(4096)
    for key in (old, kept, *others):
        counts.own(key)[0] = 7
    counts.own(kept)[0] += 1
    new = ("me", "new", 1, "predict")
    assert counts.own(new).tolist() == [0]
    found = counts.all()
    assert old not in found
    assert (found[kept][0].tolist(), found[others[-1]][0].tolist()) == ([8], [7])
    assert len(found) == 4096


def test_processes_see_what_others_count_and_what_one_counted_that_ended(tmp_path):
    ours = Counts(2, tmp_path)
    shared, own = keys(2)
    ours.own(shared)[:] = (1, 10)
    ours.own(own)[:] = (2, 20)
    for _ in range(2):
        child = os.fork()
        if child == 0:
            theirs = Counts(2, tmp_path)
            theirs.own(("me", "other", 1, "predict"))
            theirs.own(shared)[:] = (100, 1000)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    found = {key: np.sum(rows, axis=0).tolist() for key, rows in ours.all().items()}
    assert found[shared] == [201, 2010]
    assert found[own] == [2, 20]
    assert Counts(2, tmp_path).all().keys() == ours.all().keys()
