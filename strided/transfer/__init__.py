"""How a plan is carried out: regions of memory, threads, scratch memory."""
