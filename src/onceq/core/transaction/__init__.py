"""Units of work: transactions of one client, branches of XA transactions, and committed groups.

All of them take effect by ``unit_of_work.take_effect``, and ``unlock_received`` undoes them; one
record decides each.
"""
