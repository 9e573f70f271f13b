"""This node's endpoints on 127.0.0.1: status, pause, resume and quit for the tray, and the OpenAI API (`openai`).

Invariants: one server (`server`, `connection`) speaks HTTP for both, and one module (`access`) checks the clients of
both: programs of this machine are served, web pages in its browsers are not. Every wait for a client has a deadline,
and the number of connections and the sizes of heads and bodies are bounded (`limits`).
"""
