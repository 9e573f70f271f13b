"""The reference engine: a layer range of a model in PyTorch, float32, as a stage of a route (extra [torch]).

Invariants: weights are dequantised to float32 and every operation runs in it, so that what comes out is what the file
says and not what a quantised kernel makes of it; nothing outside this package imports torch, and nothing that is
imported without the extra imports this package.
"""
