"""The head and the body of a response are sent together; nothing is held longer or lost."""

import asyncio

from service.server.joining_transport import JoiningTransport


class RecordingTransport(asyncio.Transport):
    """A transport that keeps what it would send; each entry is one system call."""

    def __init__(self):
        super().__init__()
        self.sent = []
        self.is_closed = False

    def write(self, data):
        assert not self.is_closed
        self.sent.append(bytes(data))

    def writelines(self, parts):
        self.write(b"".join(parts))

    def close(self):
        self.is_closed = True

    abort = close

    def is_closing(self):
        return self.is_closed


def run(use):
    """Return what a transport sent, after some use of it and one iteration of the event loop."""
    recorded = RecordingTransport()

    async def main():
        use(JoiningTransport(recorded))
        await asyncio.sleep(0)

    asyncio.run(main())
    return recorded.sent


def test_a_head_and_its_body_are_sent_together_in_order():
    def respond_twice(transport):
        for part in (b"head 1,", bytearray(b"body 1"), b"head 2,", b""):
            transport.write(part)

    assert run(respond_twice) == [b"head 1,body 1", b"head 2,"]


def test_a_head_without_a_body_is_sent_in_the_next_iteration():
    assert run(lambda transport: transport.write(b"head")) == [b"head"]


def test_what_is_held_is_sent_before_the_connection_closes():
    def respond_and_close(transport):
        transport.write(b"head")
        transport.close()

    assert run(respond_and_close) == [b"head"]


def test_nothing_is_sent_to_a_connection_that_was_aborted():
    def respond_and_abort(transport):
        transport.write(b"head")
        transport.abort()

    assert run(respond_and_abort) == []
