"""``onceq spark land``: messages of queues as rows of a table, each exactly once.

Spark plans batches and remembers them in a checkpoint inside the table's folder; the source removes
what was committed; and this package makes rows of a batch such that doing it twice is doing it
once. For batch N, in this order (``run.Landing.write``):

1. Spark's record of what N has (``offsets/N``) is made durable, so that N never becomes anything
   else.
2. Bodies are decoded, if a schema says how. What does not fit becomes a row of the error table,
   with its body and the reason (``decoding``).
3. Spark's tasks write Parquet files under ``_onceq/staging``, which is cleared first. Files that an
   earlier attempt at N has left are removed; the new ones are made durable, and moved to their
   place under the name of the batch (``files``).
4. The table takes the files in, together with the number of the batch (``tables``). A folder of
   Parquet files has no such step.
5. ``_onceq/done.json`` says that N is done; an attempt that finds this does nothing at all, also
   where the messages are gone already (``memory``).

Only after that Spark hears that N is written, and only after that messages are removed. So each
message that is gone from a queue is one row in durable files (after a loss of power, too).
Spark's own file sink keeps that promise in its list ``_spark_metadata`` alone, which other readers
do not know: to them its folder has files that count twice, and empty ones.

Upholds: I4 at the connector; I24 (a batch at a time).
"""
