"""Build the native core: ext/*.pyx become vademecum._native.* (everything else is in pyproject.toml).

One abi3 wheel serves every CPython from 3.11 on; free-threaded builds get an ordinary extension, because
the limited API does not cover them yet. Without a compiler the install still succeeds: the package then
runs on its plain Python twins and `vademecum status` says so.

Whether a * b + c is rounded once or twice (-ffp-contract) is said for each module and not left to the compiler:
dot products want the fused instruction where there is one, MMR must give the very numbers that Python gives.
"""

import sys
import sysconfig

from Cython.Build import cythonize
from setuptools import Extension, setup

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
ABI3 = not FREE_THREADED
FLAGS = ["-O3", "-g0", "-fvisibility=hidden", "-pthread"]
WINDOWS = sys.platform == "win32"


def native(name: str, *c_sources: str, headers: tuple[str, ...] = (), contract: str = "off") -> Extension:
    return Extension(
        f"vademecum._native.{name}",
        [f"ext/{name}.pyx", *c_sources],
        depends=list(headers),
        include_dirs=["ext"],
        extra_compile_args=["/O2"] if WINDOWS else [*FLAGS, f"-ffp-contract={contract}"],
        extra_link_args=[] if WINDOWS else ["-pthread", "-lm"],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if ABI3 else [],
        py_limited_api=ABI3,
    )


core = cythonize(
    [
        native(
            "cosine",
            *("ext/simd.c", "ext/scan.c", "ext/codes.c"),
            headers=tuple(f"ext/{name}.h" for name in ("simd", "simd_dot", "scan", "codes", "heap", "parallel")),
            contract="fast",
        ),
        native("similarity", headers=("ext/tokens.h",)),
        native("folders", headers=("ext/glance.h",)),
        native("rowmap", "ext/btree.c", headers=("ext/btree.h", "ext/filemap.h")),
    ],
    include_path=["ext"],
    build_dir="build/cython",
    compiler_directives={
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "cdivision": True,
        "initializedcheck": False,
        "freethreading_compatible": True,
    },
)
for extension in core:
    extension.optional = True  # cythonize drops this one when given with the rest

setup(ext_modules=core, options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {})
