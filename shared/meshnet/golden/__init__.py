"""Golden probes: what a model computes for a few fixed token ids at every place where it may be cut.

A node proves a shard that it has loaded against them before it offers it. Pure; files are bytes here.
Source: docs/adr/0019.
"""
