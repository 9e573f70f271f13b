"""The address and the status of a running agent, as other processes of this machine read them.

Invariant: the tray imports these modules, so they use no event loop, no network and no worker.
"""
