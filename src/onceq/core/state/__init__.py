"""What is durable: tables, and the records and checkpoints that they are made from.

``core/state/state.py`` has the tables together; each is changed by ``State.apply`` and
``apply_setup`` only, from a record, so that a replay of the records gives the same tables.
``core/state/records.py`` and ``core/state/snapshot.py`` are the bytes of records and checkpoints
(docs/reference/formats).
"""
