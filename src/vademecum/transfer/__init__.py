"""Memories that come from elsewhere, and memories that go elsewhere."""

from vademecum.transfer.archive import export_archive, restore_archive
from vademecum.transfer.listing import export_chunks
from vademecum.transfer.taking import KINDS, ImportReport, import_memory

__all__ = ["KINDS", "ImportReport", "export_archive", "export_chunks", "import_memory", "restore_archive"]
