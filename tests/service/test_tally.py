"""Every event is counted once, and before anybody is told."""

import threading

from service.tally import MANY, Tally


def test_events_are_counted_in_order_once_there_are_many_or_somebody_asks():
    counted = []
    tally = Tally(counted.append)
    for i in range(MANY + 3):
        tally.add(i)
    assert counted == [list(range(MANY))]
    tally.settle()
    tally.settle()
    assert counted == [list(range(MANY)), [MANY, MANY + 1, MANY + 2]]


def test_none_is_lost_or_counted_twice_by_threads():
    counted = []
    tally = Tally(counted.extend)

    def add(start):
        for i in range(start, start + 5000):
            tally.add(i)
            if i % 7 == 0:
                tally.settle()

    threads = [threading.Thread(target=add, args=(5000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.settle()
    assert sorted(counted) == list(range(20_000))
