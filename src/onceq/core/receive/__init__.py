"""Taking messages out of queues: receives, peeks, cursors, lookups, moves and rejections.

A receive in a transaction locks; what becomes of the lock is decided by the room ``transaction``.
"""
