"""The kernels, and the only place that chooses between the native core and its plain twin.

``VADEMECUM_KERNELS`` may be ``native`` (an error where it is not installed) or ``reference``; unset, the native
core serves if it is there. ``NAME`` says which one was chosen. The twin, ``reference``, documents every function.
"""

import os
from importlib import import_module

from vademecum.errors import KernelError
from vademecum.kernels.reference import TokenSets

__all__ = ["NAME", "TokenSets", "instruction_set", "jaccard", "mmr", "scores", "token_sets", "top_k"]


def _choose() -> str:
    wanted = os.environ.get("VADEMECUM_KERNELS", "")
    if wanted not in ("", "native", "reference"):
        raise KernelError(f"VADEMECUM_KERNELS is {wanted!r}; it must be 'native' or 'reference', or not set")
    if wanted == "reference":
        return wanted
    try:
        import_module("vademecum._native.cosine")
        import_module("vademecum._native.similarity")
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
    from vademecum._native import cosine, similarity

    instruction_set, scores, top_k = cosine.instruction_set, cosine.scores, cosine.top_k
    token_sets, jaccard, mmr = similarity.token_sets, similarity.jaccard, similarity.mmr
else:
    from vademecum.kernels.reference import instruction_set, jaccard, mmr, scores, token_sets, top_k
