"""How far LlamaEngine may be from float32, by the type of the weights.

With f32 weights what is left is its f16 cache of keys and values. With quantised weights it also rounds each row of
activations to 8 bits, in blocks of 32, before it multiplies them: about 1 part in 250 of a block's largest element.
"""

from __future__ import annotations

from typing import Final

from tests.oracle.record import Tolerances
from tests.oracle.seam_errors import Tolerance

# The same float32 weights in two files: what is left is the order of sums.
SAFETENSORS: Final = Tolerances(layer=Tolerance(0.9999999, 0.0001), chain=Tolerance(0.9999999, 0.001))

TOLERANCES: Final = {
    "f32": Tolerances(layer=Tolerance(0.99999, 0.05), chain=Tolerance(0.9999, 0.15)),
    "q8_0": Tolerances(layer=Tolerance(0.9995, 0.1), chain=Tolerance(0.998, 0.2)),
    "q4_1": Tolerances(layer=Tolerance(0.9995, 0.3), chain=Tolerance(0.995, 1.5)),
}
