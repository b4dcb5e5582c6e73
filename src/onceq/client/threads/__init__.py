"""The face for threads: what connects, waits, and has ``with`` blocks and loops.

The operations themselves are in ``client/plans``; ``client/tasks`` is the other face.
"""
