"""Bytes in and out: paths, standard input, compression, and files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import BufferedReader
from pathlib import Path
from types import ModuleType
from typing import IO, cast

from consmrf.errors import OutputError
from consmrf.graph.read_report import SourceReport

__all__ = ["STDIN", "opened", "replacing", "suffixes", "takes_bytes_itself"]

STDIN = "<stdin>"  # the name standard input goes by in reports and messages

# Known by their first bytes, but not read: the message should name them.
_FOREIGN = {
    b"PK\x03\x04": "a zip archive; unpack it, or compress with gzip or zstd",
    b"BZh": "data compressed with bzip2; use gzip or zstd",
    b"\xfd7zXZ": "data compressed with xz; use gzip or zstd",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}


def suffixes(path: str) -> tuple[str, str | None]:
    """Hand on a path's format suffix without its dot, and its compression."""
    stem, last = os.path.splitext(path.lower())
    if last in (".gz", ".zst"):
        return os.path.splitext(stem)[1][1:], last[1:]
    return last[1:], None


@contextmanager
def opened(report: SourceReport) -> Iterator[BufferedReader]:
    """Open the path, or standard input, as plain bytes; failures of the file become DataError."""
    try:
        with _raw(report.name) as raw:
            yield _decompressed(raw, report)
    except EOFError:
        raise report.error(
            f"the {report.compression} data end too early; the file was cut, copy it again"
        ) from None
    except (zlib.error, gzip.BadGzipFile, _zstd().ZstdError) as error:
        raise report.error(f"broken {report.compression} data ({error}); copy the file again") from None
    except OSError as error:
        raise report.error(f"cannot be read: {error.strerror or error}") from None


def _raw(name: str) -> AbstractContextManager[BufferedReader]:
    return nullcontext(cast(BufferedReader, sys.stdin.buffer)) if name == STDIN else open(name, "rb")


def _decompressed(raw: BufferedReader, report: SourceReport) -> BufferedReader:
    start = raw.peek(8)[:8]
    for magic, what in _FOREIGN.items():
        if start.startswith(magic):
            raise report.error(f"found {what}")
    if start.startswith(b"\x1f\x8b"):
        report.compression = "gzip"
        return BufferedReader(gzip.GzipFile(fileobj=raw))
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        report.compression = "zstd"
        return BufferedReader(_zstd().ZstdFile(raw))
    return raw


def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def takes_bytes_itself(path: Path) -> bool:
    """Say whether what stands at the path takes bytes itself: a pipe, a device, our own stdout or stderr."""
    try:
        there = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(there.st_mode) or stat.S_ISDIR(there.st_mode)) or _own_stream(there) is not None


def _own_stream(there: os.stat_result) -> int | None:
    for descriptor in (1, 2):
        with suppress(OSError):  # a stream may be closed
            if os.path.samestat(os.fstat(descriptor), there):
                return descriptor
    return None


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write to a sibling that takes the path's place when all is on the disk, and goes if anything fails.

    A link stays, and what it leads to is replaced. A pipe or a device is written to.
    """
    kept = "nothing was changed"
    try:
        if takes_bytes_itself(path):
            kept = "what was written before stays written"
            with _straight_to(path) as file, _packing(path, file) as packed:
                yield packed
            return
        with _sibling_of(Path(os.path.realpath(path))) as file, _packing(path, file) as packed:
            yield packed
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}; {kept}") from None


@contextmanager
def _sibling_of(target: Path) -> Iterator[IO[bytes]]:
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _straight_to(path: Path) -> IO[bytes]:
    # through our own descriptor: to open "/dev/stdout" anew would empty the file that stdout was sent to
    own = _own_stream(os.stat(path))
    return open(path if own is None else os.dup(own), "wb")


@contextmanager
def _packing(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    compression = suffixes(path.name)[1]
    if compression == "gz":
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            yield cast(IO[bytes], packed)
    elif compression == "zst":
        with _zstd().ZstdFile(file, "wb") as packed:
            yield packed
    else:
        yield file
