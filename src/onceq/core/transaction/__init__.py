"""Units of work: of one client, branches of XA transactions, and groups committed as one.

All of them take effect by ``unit_of_work.take_effect`` and are undone by ``put_back``; one record
decides each.
"""
