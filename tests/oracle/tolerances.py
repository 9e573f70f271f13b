"""How far LlamaEngine may be from float32, by the type of the weights.

With f32 weights what is left is its f16 cache of keys and values. With weights of 16 bits it also rounds each row of
activations to their type before it multiplies them; with quantised ones to 8 bits, about 1 part in 250 of the largest
element of a block: of 32 elements, or of 256 for the types that have superblocks.
"""

from __future__ import annotations

from typing import Final

from tests.oracle.record import Tolerances
from tests.oracle.seam_errors import Tolerance

# The same float32 weights in two files: what is left is the order of sums.
SAFETENSORS: Final = Tolerances(layer=Tolerance(0.9999999, 0.0001), chain=Tolerance(0.9999999, 0.001))

_BLOCKS_OF_32: Final = Tolerances(layer=Tolerance(0.9995, 0.1), chain=Tolerance(0.998, 0.2))
_BLOCKS_OF_256: Final = Tolerances(layer=Tolerance(0.9995, 0.15), chain=Tolerance(0.998, 0.3))

TOLERANCES: Final = {
    "f32": Tolerances(layer=Tolerance(0.99999, 0.05), chain=Tolerance(0.9999, 0.15)),
    "f16": Tolerances(layer=Tolerance(0.99999, 0.05), chain=Tolerance(0.9999, 0.15)),
    "bf16": Tolerances(layer=Tolerance(0.9999, 0.05), chain=Tolerance(0.9995, 0.15)),
    # The demo model's, whose rows have single elements that are many times as large as the others.
    "q4_1": Tolerances(layer=Tolerance(0.9995, 0.3), chain=Tolerance(0.995, 1.5)),
    **dict.fromkeys(("q4_0", "q5_0", "q5_1", "q8_0", "iq4_nl", "mxfp4"), _BLOCKS_OF_32),
    **dict.fromkeys(("q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq3_s", "iq4_xs"), _BLOCKS_OF_256),
}
