from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vademecum.kernels.reference import TokenSets

def token_sets(texts: Sequence[str]) -> TokenSets: ...
def jaccard(sets: TokenSets, i: int, j: int) -> float: ...
def mmr(relevance: Sequence[float] | NDArray[np.float64], sets: TokenSets, lam: float, k: int) -> NDArray[np.int64]: ...
