"""Buffer assignments: where XLA puts every value, and images of memory read by them."""

from strided.dumps.buffer_assignment.assignment import BufferAssignment, read_allocations

__all__ = ["BufferAssignment", "read_allocations"]
