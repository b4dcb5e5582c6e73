"""The face for tasks of an event loop: what connects, waits, and has ``async with`` and loops.

The operations themselves are in ``client/plans``; ``client/threads`` is the other face. An object
belongs to the event loop that made it; any number of its tasks may use it at once.
"""
