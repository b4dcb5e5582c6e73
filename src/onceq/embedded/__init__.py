"""Queue managers inside this process, and data directories whose queue manager does not run.

``opening.open`` starts a queue manager (``start``, ``host``) and hands the client library the link
to it (``link``). ``data_directory`` and ``mapping`` need no running queue manager: they make a data
directory, check it, back it up, restore it, read its mapping files.

The client library knows nothing of this package. The package is above ``client``, whose link it is,
and above ``service``, which it runs.
"""
