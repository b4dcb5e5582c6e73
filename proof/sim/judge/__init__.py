"""The judge of a simulated world: its books, what was seen on the links, and what it makes of both.

``books`` are the tables; ``reasons`` may explain an end, ``endings`` and ``verdict`` demand one.
"""
