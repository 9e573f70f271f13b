"""The programs that a volunteer runs: the node, the tray, the doctor, `meshnet probe`, and a worker in PyTorch.

Invariant: they import `meshnet`, but never `tracker_site`.
"""
