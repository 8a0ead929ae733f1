"""What this process has: threads, CPUs, locks and caches, and the constants that tune what it does with them."""
