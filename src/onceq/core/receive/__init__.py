"""Taking messages out of queues: receives, peeks, cursors, lookups, moves and rejections.

A receive in a transaction locks; the room ``transaction`` decides the outcome of the lock.
"""
