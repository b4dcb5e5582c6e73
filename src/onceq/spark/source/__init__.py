"""The source: queues as rows, for ``spark.read`` and ``spark.readStream``.

``reader`` and ``stream`` are what Spark calls; ``access`` speaks with a queue manager; ``offsets``,
``batch_limits``, ``queue_matching``, ``checkpoint_conflicts`` and ``losses`` decide what a batch
has, and that nothing is lost or repeated; ``rows`` makes columns of packets.
"""
