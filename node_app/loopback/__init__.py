"""This node's endpoints on 127.0.0.1: its status and levers for the tray, and the OpenAI API (`openai`).

Invariants: one server (`server`, `connection`) speaks HTTP for both, and one module (`access`) decides about their
clients: only programs of this machine are served, never a page in a browser of it. Every wait for a client has a
deadline, and connections, heads and bodies are bounded (`limits`).
"""
