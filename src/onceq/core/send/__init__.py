"""A send: checked against limits and quotas, resolved to destinations, turned into packets."""
