import os

from vademecum.kernels.rowmap_reference import RowMap

def walk(data: ReadableBuffer, root_page: int, column: int, nbytes: int) -> RowMap: ...
