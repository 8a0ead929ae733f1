"""Buffer assignments, which say where XLA places values, and memory images read by them."""

from strided.dumps.buffer_assignment.assignment import BufferAssignment, read_allocations

__all__ = ["BufferAssignment", "read_allocations"]
