"""What onceq costs, measured: beside the disk, another tree, itself in another case, and others."""
