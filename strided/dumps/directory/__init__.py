"""A whole dump folder, as a catalogue of what is in it."""
