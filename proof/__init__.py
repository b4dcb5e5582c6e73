"""What proves onceq, apart from the product: ``python -m proof`` lists its programmes."""
