"""This node's endpoints on 127.0.0.1: its status and levers for the tray, and the OpenAI API (`openai`).

Invariants: only programs of this machine are served, never a page in a browser of it (`access`); every wait for a
client has a deadline, and connections, heads and bodies are bounded.
"""
