"""For tests of applications: the product itself, with its clock, its death and its links in hand.

``pytest`` has the fixtures, ``managers`` one queue manager in memory, ``links`` two and a bad way
between them, ``daemons`` one in a process of its own, ``partners`` what a partner of external
transactions must hold. Below them are the ground and the links: ``disk`` in memory, what ``power``
cuts leave of it, named ``points`` to crash at, and a ``relay`` in the middle of a link.
"""
