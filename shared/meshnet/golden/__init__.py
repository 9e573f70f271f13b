"""Golden probes: the rows that a model computes for a few fixed token ids at every legal cut.

Before a node offers a shard, it compares the rows that the shard computes with those of the probe. Pure: files are
passed as bytes. Source: docs/adr/0019.
"""
