"""Generated protobuf types: the only definition of what crosses a process boundary."""
