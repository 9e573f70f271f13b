"""Users, their API keys, and the tokens with which their nodes enrol."""
