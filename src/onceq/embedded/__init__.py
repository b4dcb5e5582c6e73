"""Queue managers inside this process, and data directories whose queue manager does not run.

``opening.open`` starts a queue manager (``start``, ``host``) and hands the client library the link
to it (``link``). ``data_directory`` and ``mapping`` do what needs no queue manager that runs: make
a data directory, check it, back it up, restore it, read its mapping files.

The client library knows nothing of this package. It stands above ``client``, whose link it is,
and above ``service``, which it runs.
"""
