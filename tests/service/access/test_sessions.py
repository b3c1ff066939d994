"""Sessions of browsers: opened with a key, ended by time, sign-out, revocation and newer ones."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import sqlalchemy as sa

from service.access import sessions, store
from service.access.authenticator import Authenticator
from service.access.keys import new_key
from service.errors.problems import Problem
from service.storage.database import now
from service.storage.tables import SessionRow

pytestmark = pytest.mark.sql


@pytest.fixture
def key(database):
    made = new_key()
    with database.write() as session:
        store.create(session, made, owner="ada", scopes=["jobs:read"], expires_at=None)
    return made


@pytest.fixture
def authenticator(database):
    made = Authenticator(database, is_open=False, session_lifetime=timedelta(hours=1))
    yield made
    made.close()


def stored(database):
    with database.read() as session:
        return session.scalars(sa.select(SessionRow)).all()


def test_a_session_has_the_access_of_its_key_until_it_is_signed_out(authenticator, database, key):
    token = authenticator.sign_in(key.text())
    authorization = f"Session {token}"
    assert authenticator.authenticate(authorization, "jobs:read") == "ada"
    caller = authenticator.describe(authorization)
    assert (caller.owner, caller.key_id, caller.scopes) == ("ada", key.id, ["jobs:read"])
    with pytest.raises(Problem, match="needs the scope 'jobs:write'"):
        authenticator.authenticate(authorization, "jobs:write")
    (row,) = stored(database)
    assert row.token_sha256 == hashlib.sha256(token.encode()).hexdigest()
    assert key.secret not in token
    authenticator.sign_out(authorization)
    assert authenticator.cached_owner(authorization, None) is None
    with pytest.raises(Problem, match="the session has ended"):
        authenticator.authenticate(authorization, None)
    assert stored(database) == []


def test_a_session_ends_with_its_key_and_in_its_time(authenticator, database, key):
    short = Authenticator(database, is_open=False, session_lifetime=timedelta(seconds=-1))
    with pytest.raises(Problem, match="the session expired at"):
        short.authenticate(f"Session {short.sign_in(key.text())}", None)
    short.close()
    authorization = f"Session {authenticator.sign_in(key.text())}"
    assert len(stored(database)) == 1  # the expired one is deleted
    with database.write() as session:
        store.get(session, key.id).expires_at = now() - timedelta(seconds=1)
    with pytest.raises(Problem, match="the API key expired at"):
        authenticator.authenticate(authorization, None)
    with database.write() as session:
        store.revoke(session, key.id)
    assert stored(database) == []


def test_a_cached_key_ends_in_its_time_also_where_it_cannot_be_read_again(
    authenticator, database, wait_until
):
    short, end = new_key(), now() + timedelta(seconds=0.5)
    with database.write() as session:
        store.create(session, short, owner="ada", scopes=["jobs:read"], expires_at=end)
    authorization = f"Bearer {short.text()}"
    assert authenticator.authenticate(authorization, None) == "ada"
    with database.write() as session:
        session.execute(sa.text("ALTER TABLE api_keys RENAME TO away"))
    wait_until(lambda: now() > end)
    assert authenticator.cached_owner(authorization, None) is None


def test_the_oldest_session_of_a_key_ends_for_one_too_many(authenticator, database, key):
    tokens = [authenticator.sign_in(key.text()) for _ in range(sessions.MAX_SESSIONS_PER_KEY + 2)]
    assert len(stored(database)) == sessions.MAX_SESSIONS_PER_KEY
    with database.read() as session:
        assert [sessions.find(session, token) is None for token in tokens[:3]] == [
            True,
            True,
            False,
        ]


@pytest.mark.parametrize("text", ["", "sib_x", "Session x", "sib_" + "0" * 12 + "_" + "y" * 43])
def test_only_a_valid_key_opens_a_session(authenticator, database, text):
    with pytest.raises(Problem):
        authenticator.sign_in(text)
    assert stored(database) == []


def test_a_session_read_just_before_it_is_signed_out_is_not_cached(authenticator, key, monkeypatch):
    """A request that reads the session, and is overtaken by the end of it."""
    authorization = f"Session {authenticator.sign_in(key.text())}"
    read = sessions.find
    ended = []

    def find_and_sign_out(*arguments, **options):
        found = read(*arguments, **options)
        if not ended:
            ended.append(True)
            with ThreadPoolExecutor(1) as other:
                other.submit(authenticator.sign_out, authorization).result()
        return found

    monkeypatch.setattr(sessions, "find", find_and_sign_out)
    with pytest.raises(Problem, match="the session has ended"):
        authenticator.authenticate(authorization, None)
    assert authenticator.cached_owner(authorization, None) is None
