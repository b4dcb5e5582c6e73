"""Shipped test support.

For tests of applications: ``pytest`` (fixtures), ``managers`` (one queue manager in memory),
``links`` (two, and a bad way between them), ``daemons`` (one in a process of its own).

The rest is what onceq itself is tested with, and may change: simulated clocks, networks and disks,
whole worlds of queue managers, and an independent judge. ``simulate.py`` is programme P4; a failing
seed is one line to paste.
"""
