"""From names to queues, and from queues to the names that packets have.

Nothing here changes what a name means; only ``core/names/resolve.py`` makes outgoing queues for
names that are used for the first time.
"""
