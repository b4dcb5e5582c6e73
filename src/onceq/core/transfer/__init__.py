"""Exactly-once delivery between managers: outgoing queues, sessions, arrival, doubts (EOD rules).

The sender's side is ``outgoing_queue.py``, the receiver's is ``core/transfer/arrival.py``; both
meet in ``sessions.py``. ``in_doubt.py``, ``core/transfer/pending_outcomes.py`` and
``core/transfer/abandoned_streams.py`` ask what became of messages whose end was not reported;
``pending_outcomes.py`` answers.
"""
