"""Protocol buffers: the wire format, its text form, and the messages that shapes are written as."""
