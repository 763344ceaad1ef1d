"""Build the native core: ext/*.pyx become vademecum._native.* (everything else is in pyproject.toml).

One abi3 wheel serves every CPython from 3.11 on; free-threaded builds get an ordinary extension, because
the limited API does not cover them yet. Without a compiler the install still succeeds: the package then
runs on its plain Python twins and `vademecum status` says so.
"""

import sysconfig

from Cython.Build import cythonize
from setuptools import Extension, setup

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
ABI3 = not FREE_THREADED

MODULES = ("cosine", "similarity")

extensions = [
    Extension(
        f"vademecum._native.{name}",
        [f"ext/{name}.pyx"],
        include_dirs=["ext"],
        extra_compile_args=["-O3"],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if ABI3 else [],
        py_limited_api=ABI3,
        optional=True,
    )
    for name in MODULES
]

setup(
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "freethreading_compatible": True,
        },
    ),
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
)
