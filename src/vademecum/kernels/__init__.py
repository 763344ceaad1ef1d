"""The kernels, and the only place that chooses between the native core and its plain twin.

``VADEMECUM_KERNELS`` may be ``native`` (an error where it is not installed) or ``reference``; unset, the native
core serves if it is there. ``NAME`` says which one was chosen. The twins, ``reference`` and ``codes_reference``,
document every function.
"""

import os

from vademecum.errors import KernelError
from vademecum.kernels.places import ELSEWHERE
from vademecum.kernels.reference import TokenSets

__all__ = [
    "ELSEWHERE",
    "NAME",
    "FileMap",
    "TokenSets",
    "bound_codes",
    "encode",
    "glance",
    "held",
    "instruction_set",
    "jaccard",
    "mmr",
    "scores",
    "scores_at",
    "search_codes",
    "token_sets",
    "top_k",
    "top_k_at",
]


def _choose() -> str:
    wanted = os.environ.get("VADEMECUM_KERNELS", "")
    if wanted not in ("", "native", "reference"):
        raise KernelError(f"VADEMECUM_KERNELS is {wanted!r}; it must be 'native' or 'reference', or not set")
    if wanted == "reference":
        return wanted
    try:
        from vademecum._native import cosine, folders, rowmap, similarity  # noqa: F401
    except ImportError as error:
        if wanted:
            raise KernelError(
                f"VADEMECUM_KERNELS is 'native', but the native core cannot be loaded ({error}); install a wheel, or "
                "build with a C compiler, or unset the variable"
            ) from error
        return "reference"
    return "native"


#: "native" or "reference".
NAME = _choose()

if NAME == "native":
    from vademecum._native import cosine, folders, rowmap, similarity

    FileMap: type[rowmap.FileMap] | None = rowmap.FileMap
    instruction_set, scores, top_k = cosine.instruction_set, cosine.scores, cosine.top_k
    scores_at, top_k_at = cosine.scores_at, cosine.top_k_at
    encode, bound_codes, search_codes = cosine.encode, cosine.bound_codes, cosine.search_codes
    glance = folders.glance
    token_sets, held = similarity.token_sets, similarity.held
    jaccard, mmr = similarity.jaccard, similarity.mmr
else:
    from vademecum.kernels.codes_reference import bound_codes, encode, search_codes
    from vademecum.kernels.folders_reference import glance
    from vademecum.kernels.reference import (
        held,
        instruction_set,
        jaccard,
        mmr,
        scores,
        scores_at,
        token_sets,
        top_k,
        top_k_at,
    )

    # Without the native core vectors are read through SQL.
    FileMap = None
