"""What this process has: threads, CPU features, values computed once."""
