"""The sink: rows as messages, for ``write`` and ``writeStream``.

``writer`` is what Spark calls; it commits what the tasks have staged. ``task`` stages the rows of
one partition in ``branches``; ``rows`` cuts them into pieces.
"""
