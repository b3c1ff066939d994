import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.processes.wire import Wire

messages = st.dictionaries(
    st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=5
)


@pytest.mark.slow
@given(st.lists(messages, max_size=20))
def test_messages_arrive_complete_and_in_order(sent):
    left, right = (Wire(s) for s in socket.socketpair())
    try:
        sender = threading.Thread(target=lambda: [left.send(m) for m in sent])
        sender.start()
        assert [right.receive(5) for _ in sent] == sent
        sender.join()
        assert right.receive(0) is None
        assert not right.is_closed
    finally:
        left.close()
        right.close()


def test_the_last_message_of_a_closed_peer_arrives():
    left, right = (Wire(s) for s in socket.socketpair())
    left.send({"a": 1})
    left.close()
    assert right.receive(1) == {"a": 1}
    assert right.receive(1) is None
    assert right.is_closed
    right.send({"b": 2})  # dropped
    right.close()


def test_a_number_that_json_cannot_hold_arrives_as_null():
    left, right = (Wire(s) for s in socket.socketpair())
    left.send({"metrics": {"duality_gap": {"a": float("inf"), "b": 0.5}}, "steps": [float("nan")]})
    assert right.receive(1) == {"metrics": {"duality_gap": {"a": None, "b": 0.5}}, "steps": [None]}
    left.close()
    right.close()
