"""Read and write literals: values with their shapes."""
