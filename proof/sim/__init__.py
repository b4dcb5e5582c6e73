"""What onceq itself is tested with: whole worlds of queue managers from seeds, and their judge.

Simulated clocks, networks and recovery (``base``), what applications and operators do (``apps``),
what goes wrong (``faults``), an independent judge (``judge``), and real processes that are killed
at named points (``process``). ``simulate`` is programme P4; a failing seed is one line to paste.
The disk in memory and the named points are those of ``onceq.testing``.
"""
