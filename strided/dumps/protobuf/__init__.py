"""Protocol buffers: the wire format, the text form, and the messages of shapes."""
