"""One step at work: the durable state, what is running, and the change under construction.

``step.py`` is what every rule is handed. ``Step.record`` and ``Step.setup`` are the only ways to
change the durable state. ``core/step/step.py`` makes the change of a step and counts what
it brings to each queue while it grows.
"""
