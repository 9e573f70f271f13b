"""This node's endpoints on 127.0.0.1: status, pause, resume and quit for the tray, and the OpenAI API (`openai`).

Invariants: one server (`server`, `connection`) speaks HTTP for both, and one module (`access`) checks their clients:
programs of this machine are served, web pages in its browsers are not. Every wait for a client has a deadline, and
connections, heads and bodies are bounded (`limits`).
"""
