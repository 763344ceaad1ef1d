"""Looking at the library itself: how fast it is on this machine."""

from vademecum.diagnose.bench import Speed, measure

__all__ = ["Speed", "measure"]
