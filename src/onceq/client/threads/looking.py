# Made from client/tasks/looking.py by tools/faces.py: edit that, and run `make format`.
"""The part of a queue manager that only looks: a command that asks one thing loads no more than
this."""

from __future__ import annotations

from onceq.client.binding import threads
from onceq.client.plans import operate
from onceq.client.plans import queues as admin
from onceq.client.threads.connected import Connected


class Looking(Connected):
    """The operations that change nothing."""

    queue = threads(admin.queue)
    queues = threads(admin.queues)
    queue_page = threads(admin.queue_page)
    consumers = threads(admin.consumers)
    count_range = threads(admin.count_range)

    status = threads(operate.status)
    metrics = threads(operate.metrics)
    settings = threads(operate.settings)
    outgoing = threads(operate.outgoing)
    outgoing_page = threads(operate.outgoing_page)
    outgoing_queue = threads(operate.outgoing_queue)
    why = threads(operate.why)
    streams = threads(operate.streams)
    peers = threads(operate.peers)
    transactions = threads(operate.transactions)
    branches = threads(operate.branches)
    decisions = threads(operate.decisions)
    lists = threads(operate.lists)
    list_members = threads(operate.list_members)
    explain_name = threads(operate.explain_name)
    damages = threads(operate.damages)
    eod_send_info = threads(operate.eod_send_info)
    eod_receive_info = threads(operate.eod_receive_info)

    rights = threads(admin.rights)
    trail = threads(admin.trail)
    trail_end = threads(admin.trail_end)
    tokens = threads(admin.tokens)
    jobs = threads(admin.jobs)
    job = threads(admin.job)
