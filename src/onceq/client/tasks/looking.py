"""The part of a queue manager that only looks: a command that asks one thing loads no more than
this."""

from __future__ import annotations

from onceq.client.binding import tasks
from onceq.client.plans import operate
from onceq.client.plans import queues as admin
from onceq.client.tasks.connected import AsyncConnected


class AsyncLooking(AsyncConnected):
    """The operations that change nothing."""

    queue = tasks(admin.queue)
    queues = tasks(admin.queues)
    queue_page = tasks(admin.queue_page)
    consumers = tasks(admin.consumers)
    count_range = tasks(admin.count_range)

    status = tasks(operate.status)
    metrics = tasks(operate.metrics)
    settings = tasks(operate.settings)
    outgoing = tasks(operate.outgoing)
    outgoing_page = tasks(operate.outgoing_page)
    outgoing_queue = tasks(operate.outgoing_queue)
    why = tasks(operate.why)
    streams = tasks(operate.streams)
    peers = tasks(operate.peers)
    transactions = tasks(operate.transactions)
    branches = tasks(operate.branches)
    decisions = tasks(operate.decisions)
    lists = tasks(operate.lists)
    list_members = tasks(operate.list_members)
    explain_name = tasks(operate.explain_name)
    damages = tasks(operate.damages)
    eod_send_info = tasks(operate.eod_send_info)
    eod_receive_info = tasks(operate.eod_receive_info)

    rights = tasks(admin.rights)
    trail = tasks(admin.trail)
    trail_end = tasks(admin.trail_end)
    tokens = tasks(admin.tokens)
    jobs = tasks(admin.jobs)
    job = tasks(admin.job)
