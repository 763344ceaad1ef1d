"""The one family of errors.

::

    VademecumError
    ├── SettingsError            a setting has a wrong key, type or value
    ├── UsageError               an argument cannot be what the caller gave (also a ValueError)
    ├── StoreError               Markdown on disk
    │   ├── PathError            a path leaves the root or names something that is not ours
    │   ├── MissingFileError     no such file
    │   ├── UnreadableFileError  exists, but cannot be read or decoded; never overwritten
    │   ├── WriteError           could not be written; the old content is still there
    │   ├── MatchError           the text to be changed is not there, or there more than once
    │   ├── ConflictError        not the content that the caller had in mind; nothing was changed
    │   └── LockTimeoutError     another process holds the root's lock      (retryable)
    ├── IndexUnavailableError    the index cannot be used
    │   ├── IndexFormatError     written by a newer vademecum
    │   ├── IndexReplacedError   deleted or exchanged while it was open; opened anew (retryable)
    │   └── IndexCorruptError    damaged; set aside and rebuilt from Markdown
    ├── HistoryError             conversations cannot be read or written; what is stored stays
    │   ├── HistoryCorruptError  the file is damaged; left as it is
    │   └── HistoryBusyError     another process has been writing for too long (retryable)
    ├── ProviderError            a model did not do its part; memory goes on without it
    │   ├── ProviderMissingError a package or key is not there
    │   ├── ProviderRefusedError wrong key, quota used up, unknown model, a text it will not take
    │   ├── ProviderReplyError   the reply is not what was asked for
    │   └── ProviderDownError    timeout, connection, 429, 5xx               (retryable)
    ├── PackageMissingError      an optional package is not installed; the message names the extra
    └── KernelError              native kernels were required and are not there

Every message names the file or key, the value and the way out. ``retryable`` says whether the same call may
succeed later without a change by the user.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

#: What a provider said no to.
Refusal: TypeAlias = Literal["key", "quota", "model", "input", "answer"]
#: How a provider is down: not reached, too slow, limiting the rate of calls, or answering 5xx.
Outage: TypeAlias = Literal["unreachable", "late", "rate", "failing"]

_SHOWN = 80


def shown(value: object) -> str:
    """A value for a message: its ``repr``, shortened in its middle and always printable."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print very long numbers
        return "a very long number"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}…{text[-_SHOWN // 4 :]}"


class VademecumError(Exception):
    """Base of every error that vademecum raises on purpose."""

    retryable: bool = False


class SettingsError(VademecumError):
    """A setting is unknown or has a wrong type or value; the message names the key and where it was set."""


class UsageError(VademecumError, ValueError):
    """An argument is outside its documented range."""


class StoreError(VademecumError):
    """Something about the Markdown files on disk."""


class PathError(StoreError):
    """The path leaves the root, or is not a Markdown file of this memory."""


class MissingFileError(StoreError):
    """There is no such file in this memory."""


class UnreadableFileError(StoreError):
    """The file exists but cannot be read or decoded. It is never rewritten."""


class WriteError(StoreError):
    """Writing failed; the file still holds its old content."""


class MatchError(StoreError):
    """The text to be changed does not stand on the page, or stands there more than once; nothing was changed.

    ``lines`` are where it stands, or where something like it does; counted from 1.
    """

    def __init__(self, message: str, lines: tuple[int, ...]) -> None:
        """See the class."""
        super().__init__(message)
        self.lines = lines


class ConflictError(StoreError):
    """What is on disk is not what the caller had in mind; nothing was changed."""


class LockTimeoutError(StoreError):
    """Another process has held the root's lock for too long."""

    retryable = True


class IndexUnavailableError(VademecumError):
    """The index cannot be used; Markdown is untouched."""


class IndexFormatError(IndexUnavailableError):
    """The index was written by a newer version."""


class IndexReplacedError(IndexUnavailableError):
    """The index was deleted or exchanged while it was open, or cannot be reached just now."""

    retryable = True


class IndexCorruptError(IndexUnavailableError):
    """The index file is damaged."""


class HistoryError(VademecumError):
    """Conversations cannot be read or written; what is stored stays as it is."""


class HistoryCorruptError(HistoryError):
    """The file of conversations is damaged. It is never replaced."""


class HistoryBusyError(HistoryError):
    """Another process has held the write lock for too long."""

    retryable = True


class ProviderError(VademecumError):
    """A model of vectors or of language did not do its part; search goes on by keyword, texts stay as they are."""


class ProviderMissingError(ProviderError):
    """A package, key or address that the provider needs is not there."""


class ProviderRefusedError(ProviderError):
    """The provider said no, and would say it again; ``about`` tells to what.

    Vendors word "too long", "too many" and "not this text" alike and in many languages: all that is not surely a key,
    a quota or a model is "input"; "answer" is one that the provider made and withholds.
    """

    def __init__(self, message: str, about: Refusal = "input") -> None:
        super().__init__(message)
        self.about = about


class ProviderReplyError(ProviderError):
    """The reply does not match the request: wrong count, order or dimensions."""


class ProviderDownError(ProviderError):
    """Timeout, connection failure, rate limit or server error; ``about`` tells which."""

    retryable = True

    def __init__(self, message: str, about: Outage = "failing") -> None:
        super().__init__(message)
        self.about = about


class PackageMissingError(VademecumError):
    """What was asked for needs an optional package that is not installed."""


class KernelError(VademecumError):
    """The native kernels were required but are not installed."""
