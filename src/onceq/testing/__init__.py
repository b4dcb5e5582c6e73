"""For tests of applications: the product itself, with its clock, its death and its links in hand.

``pytest`` has the fixtures, ``managers`` one queue manager in memory, ``links`` two and a bad way
between them, ``daemons`` one in a process of its own, ``partners`` what a partner of external
transactions must hold. They stand on the disk and the named points of ``onceq.simulator``.
"""
