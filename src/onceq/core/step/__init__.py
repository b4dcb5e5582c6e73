"""One step at work: the durable state, what is running, and the change under construction.

Every rule is handed the ``Step``, whose ``record`` and ``setup`` are the only ways to change the
durable state. ``ChangeBuilder`` collects the change of the step, and counts what it brings to each
queue while it grows.
"""
