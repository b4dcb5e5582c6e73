"""The history of a queue manager as Parquet files; loaded only where the setting asks for it."""
