"""The systems that ``make bench-peers`` measures, one module each, behind one contract.

``contract.py`` says what a system and a client of it must do, ``server.py`` is a process with a
folder, ``programs.py`` finds or fetches what is run; ``rounds.py`` measures, ``summary.py`` sums
up, ``plot.py`` draws and ``pages.py`` writes into the documentation.
"""
