import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.processes.turns import NoTurn, Turns


@pytest.fixture
def ask(wait_until):
    """Return a function that has an owner wait for a turn while another one has it."""
    turns, served, refused = Turns(5), [], []
    ended, holding = threading.Event(), threading.Event()

    def hold():
        with turns.turn("holder"):
            holding.set()
            ended.wait()

    def take(owner):
        try:
            with turns.turn(owner):
                served.append(owner)
        except NoTurn:
            refused.append(owner)

    def n_places():
        return sum(map(len, turns._waiting.values())) + len(refused)

    def ask(*owners):
        for owner in owners:
            n = n_places() + 1
            pool.submit(take, owner)
            wait_until(lambda n=n: n_places() == n)

    def answers():
        ended.set()
        pool.shutdown()
        return served, refused

    ask.answers = answers
    with ThreadPoolExecutor(20) as pool:
        pool.submit(hold)
        holding.wait()
        yield ask
        ended.set()


def test_owners_take_turns(ask):
    ask("a", "a", "a", "b")
    assert ask.answers() == (["a", "b", "a", "a"], [])


def test_an_owner_with_all_places_gives_some_to_others(ask):
    ask("a", "a", "a", "a", "b", "c", "b")
    assert ask.answers() == (["a", "b", "c", "a"], ["a", "a", "b"])


def test_an_owner_with_all_places_gets_no_more(ask):
    ask("a", "a", "a", "a", "a")
    assert ask.answers() == (["a"] * 4, ["a"])


def test_after_an_error_the_next_one_has_its_turn():
    turns = Turns(1)
    for _ in range(2):
        with pytest.raises(RuntimeError), turns.turn("a"):
            raise RuntimeError
    with turns.turn("a"), pytest.raises(NoTurn), turns.turn("b"):
        pass
