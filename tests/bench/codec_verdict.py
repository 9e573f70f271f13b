"""What a comparison of codecs says: each against the model's own noise floor. Pure.

The floor is what raw rows give that a millionth of noise has touched: about what another order of the same sums does. A
codec that stays within its bar of that costs no quality that could be told from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from meshnet.frame import Codec
from tests.parity.divergence import Divergence

ROWS_MIN: Final = 256
# Mean divergence, in multiples of the noise control's.
BARS: Final[Mapping[Codec, float]] = {Codec.BF16: 1.3, Codec.Q8_0: 4.0}


@dataclass(frozen=True, slots=True)
class CodecVerdict:
    """Rows of every arm against those of untouched raw rows.

    Attributes:
        codecs: by codec, raw included.
        noise: raw rows with noise on the seam.
        wrong_scales: q8_0 rows whose scales were made wrong: must not pass for q8_0.
    """

    codecs: Mapping[Codec, Divergence]
    noise: Divergence
    wrong_scales: Divergence

    def ratio(self, found: Divergence) -> float:
        """A mean divergence in multiples of the control's; NaN where either says nothing."""
        return found.mean / self.noise.mean if self.noise.mean > 0 else float("nan")

    def failures(self) -> list[str]:
        """Everything that is wrong, for people; empty where all is well."""
        arms = {codec.label: one for codec, one in self.codecs.items()}
        arms |= {"noise": self.noise, "wrong_scales": self.wrong_scales}
        said = [
            f"{name}: {one.rows} rows compared, {ROWS_MIN} wanted" for name, one in arms.items() if one.rows < ROWS_MIN
        ]
        said += [f"{name}: {one.not_finite} rows not finite" for name, one in arms.items() if one.not_finite]
        if self.codecs[Codec.RAW].largest != 0.0:
            said.append(f"raw rows differ from raw rows, by {self.codecs[Codec.RAW].largest:.3g}")
        if not self.noise.mean > 0.0:
            said.append("noise on the seam is not seen")
        for codec, bar in BARS.items():
            if not 0.0 < self.ratio(self.codecs[codec]) <= bar:
                said.append(f"{codec.label}: {self.ratio(self.codecs[codec]):.2f} of the control's, {bar} allowed")
        if self.ratio(self.wrong_scales) <= BARS[Codec.Q8_0]:
            said.append(f"wrong scales pass for q8_0: {self.ratio(self.wrong_scales):.2f} of the control's")
        return said
