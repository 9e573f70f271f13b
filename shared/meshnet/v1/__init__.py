"""Generated protobuf types: the only definition of the messages that cross a process boundary."""
