"""Exactly-once delivery between managers: outgoing queues, sessions, arrival, doubts (EOD rules).

The sender's side is ``outgoing_queue.py``, the receiver's is ``core/transfer/arrival.py``; both
meet in ``sessions.py``. What became of messages whose end nobody told is asked by ``in_doubt.py``,
``core/transfer/untold.py`` and ``core/transfer/stranded.py``, and answered by
``inquiry_answers.py``.
"""
