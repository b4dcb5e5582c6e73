"""Transaction managers that are not ours begin, prepare and decide; a queue manager takes part.

``onceq.foreign.tpc`` for programs that drive PEP 249, ``onceq.foreign.zope`` for ``transaction`` of
Zope, ``onceq.foreign.alchemy`` for SQLAlchemy sessions in two-phase mode; and, for databases that
cannot take part with others, ``onceq.foreign.tpc``. None of these managers keeps a record of its
decisions: if its process dies between the two phases, branches stay prepared, and an operator
decides (``onceq tx``). Where that matters let the queue manager decide: ``tx.enlist``.
"""
