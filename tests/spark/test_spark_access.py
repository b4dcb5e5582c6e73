"""What a worker reads of a queue manager, page by page, and what is missing there."""

from __future__ import annotations

from typing import Any

from onceq.spark.source.offsets import Range


def test_a_range_is_read_and_what_is_missing_is_seen(daemon: Any) -> None:
    from onceq.spark.source.access import LazyConnection
    from onceq.spark.source.conflicts import StreamIdentity

    reader = StreamIdentity(who="a test")
    queue = r"private$\holes"
    daemon.manager.create_queue(queue, transactional=True)
    with daemon.manager.transaction() as tx:
        tx.send_many(queue, [f"{i}".encode() for i in range(10)])
    view = daemon.manager.queue(queue)
    whole = Range(queue, view["first_lookup"] - 1, view["last_lookup"])
    with LazyConnection(str(daemon.path)) as access:
        sight = access.sample(queue)
        assert [len(batch) for batch in access.pages(queue, whole)] == [10]
        part = Range(queue, whole.after + 3, whole.after + 7)
        assert [batch.bodies() for batch in access.pages(queue, part)] == [[b"3", b"4", b"5", b"6"]]
        assert access.count(queue, whole).messages == 10
        daemon.manager.receive(queue, lookup_id=whole.after + 5)
        assert [len(batch) for batch in access.pages(queue, whole)] == [9]
        assert access.count(queue, whole).messages == 9
        size = sum(daemon.manager.peek_many(queue, 3).run.lengths)
        assert access.count(queue, whole, bytes=1).to == whole.after + 1
        assert access.count(queue, whole, bytes=size).to == whole.after + 3
        assert access.count(queue, whole, bytes=size - 1).to == whole.after + 2
        assert access.count(queue, whole, bytes=1 << 30).to == whole.to
        assert access.remove([(queue, whole)], [sight], reader) == [9]
        assert access.remove([(queue, whole)], [sight], reader) == [0]
