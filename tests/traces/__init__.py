"""Written traces: short scenarios of the core as text, with what it decided below each input.

``script`` reads and writes the files, ``commands`` is the table of commands, ``world`` has the
queue managers and what is under way between them, ``telling`` puts decisions into words.
"""
