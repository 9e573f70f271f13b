"""The reference engine: computes a layer range of a model with PyTorch, in float32 (extra [torch]).

Invariants: weights are dequantised to float32 and every operation runs in float32, so that the rows show the file's
weights and not the rounding of a quantised kernel. Only this package imports torch, and no module that must work
without the extra imports this package.
"""
