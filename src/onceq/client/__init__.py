"""What applications use: queue managers, transactions, messages; embedded or connected."""
