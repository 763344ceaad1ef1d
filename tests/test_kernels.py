"""The choice between the native kernels and their plain twins, and between instruction sets."""

from __future__ import annotations

import pytest

from kernel_support import cosine, needs_native, run
from vademecum.errors import UsageError

pytestmark = pytest.mark.kernels

SHOW = "from vademecum import kernels; print(kernels.NAME, kernels.top_k.__module__, kernels.mmr.__module__)"
WITHOUT_CORE = "import sys; sys.modules['vademecum._native.similarity'] = None; "


@needs_native
def test_the_native_core_serves_where_it_is_installed() -> None:
    expected = "native vademecum._native.cosine vademecum._native.similarity\n"
    assert run(SHOW).stdout == run(SHOW, VADEMECUM_KERNELS="native").stdout == expected


def test_the_twin_serves_when_asked_for_or_when_the_core_is_missing() -> None:
    expected = "reference vademecum.kernels.reference vademecum.kernels.reference\n"
    assert run(SHOW, VADEMECUM_KERNELS="reference").stdout == expected
    assert run(WITHOUT_CORE + SHOW).stdout == expected


def test_a_core_that_is_required_but_missing_is_an_error() -> None:
    assert "KernelError: VADEMECUM_KERNELS is 'native'" in run(WITHOUT_CORE + SHOW, VADEMECUM_KERNELS="native").stderr


def test_an_unknown_choice_is_an_error_that_names_it() -> None:
    assert "KernelError: VADEMECUM_KERNELS is 'fast'" in run(SHOW, VADEMECUM_KERNELS="fast").stderr


def test_kernels_import_nothing_from_above_their_layer() -> None:
    code = "import sys, vademecum.kernels; print(sorted(m for m in sys.modules if m.startswith('vademecum.')))"
    loaded = set(run(code).stdout.translate(str.maketrans("", "", "[]',")).split())
    assert {"vademecum.errors", "vademecum.kernels"} <= loaded
    assert {name.split(".")[1] for name in loaded} <= {"errors", "kernels", "_native"}


@needs_native
def test_the_best_instruction_set_is_chosen_at_import() -> None:
    code = "from vademecum._native import cosine as c; print(c.instruction_set() == c.available_instruction_sets()[0])"
    assert run(code).stdout == "True\n"
    with pytest.raises(UsageError, match="'mmx'"):
        cosine.use_instruction_set("mmx")
