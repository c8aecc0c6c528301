"""The model folder: safetensors arrays, and the JSON manifest that vouches for them. Knows no model.

    manifest.json                    what the arrays mean, and the name, size and digest of each array file
    predictor-<token>.safetensors    what scores
    triples-<token>.safetensors      the training triples
    vocabulary-<token>.safetensors   the labels, as UTF-8 and offsets

The manifest's last line is the digest of all bytes before it. This envelope (format, version, last line)
stays the same in every version. A save writes array files under new names, renames the manifest into place,
and only then removes the array files of the old one, so a reader meets the old model or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import ModelFileError, OutputError

__all__ = ["VERSION", "Stored", "check_replaceable", "read", "write"]

VERSION = 1
FORMAT = "consmrf model"
MANIFEST = "manifest.json"
ATTEMPTS = 10  # how often a reader looks for arrays that savers keep replacing
_SEAL = b'  "digest": '  # begins the manifest's last field
_ARRAY_FILE = re.compile(r"[a-z]+-[0-9a-f]{16}\.safetensors")
_OURS = re.compile(rf"{_ARRAY_FILE.pattern}|manifest-[0-9a-f]{{16}}\.tmp")
_DTYPES = {
    name: np.dtype(code)
    for name, code in {"U8": "u1", "I32": "<i4", "I64": "<i8", "F32": "<f4", "F64": "<f8"}.items()
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_REMEDY = "restore the model from a copy or fit it again"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Stored:
    """What a folder holds: plain values, and arrays by file and name."""

    values: dict[str, Any]
    files: dict[str, dict[str, NDArray[Any]]]


def write(path: str | os.PathLike[str], values: Mapping[str, Any], files: Mapping[str, Arrays]) -> None:
    """Make the folder hold these values and arrays, or leave it as it was and raise OutputError."""
    folder = Path(path)
    try:
        json.dumps(dict(values), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OutputError(f"{folder}: settings or provenance that JSON cannot hold: {error}") from None
    try:
        existed = check_replaceable(folder)
        if not existed:
            folder.mkdir()
        with _locked(folder):
            _replace(folder, values, files, existed)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{folder}: the model was not written: {error.strerror or error}") from error


def check_replaceable(folder: Path) -> bool:
    """Say whether the folder exists; a file, or a folder of something other than a model, is refused."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        if not folder.is_file():  # it is the parent that is a file
            return False
        raise OutputError(f"{folder}: is a file, and a model is a folder; choose another path") from None
    foreign = sorted(name for name in names if not _OURS.fullmatch(name))
    if MANIFEST in names:
        # a damaged manifest may be anybody's
        with contextlib.suppress(ValueError, AttributeError):
            if json.loads((folder / MANIFEST).read_bytes()).get("format") == FORMAT:
                return True
    if foreign:
        raise OutputError(f"{folder}: is not a consmrf model (it holds {foreign[0]!r}); choose another path")
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other savers out of the folder, where the system has locks; readers need none."""
    try:
        import fcntl
    except ImportError:  # Windows: of two savers at once, one may fail
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(folder: Path, values: Mapping[str, Any], files: Mapping[str, Arrays], existed: bool) -> None:
    token = secrets.token_hex(8)
    draft = folder / f"manifest-{token}.tmp"
    names = {group: f"{group}-{token}.safetensors" for group in sorted(files)}
    try:
        entries = {group: _write_arrays(folder / name, files[group]) for group, name in names.items()}
        _write_parts(draft, [_render_manifest(values, entries)])
        _sync_folder(folder)
        os.replace(draft, folder / MANIFEST)
    except BaseException:
        # an interrupt can arrive when the manifest is already in place
        if not _manifest_names(folder, token):
            _remove(folder, [*names.values(), draft.name])
            if not existed:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        raise
    try:
        _sync_folder(folder)
    except OSError as error:
        raise OutputError(
            f"{folder}: in place, but the disk has not confirmed it: {error.strerror}"
        ) from error
    new = set(names.values())
    _remove(folder, [name for name in os.listdir(folder) if _OURS.fullmatch(name) and name not in new])


def _manifest_names(folder: Path, token: str) -> bool:
    try:
        return token.encode() in (folder / MANIFEST).read_bytes()
    except OSError:
        return False


def _remove(folder: Path, names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(OSError):
            (folder / name).unlink()


def _write_arrays(path: Path, arrays: Arrays) -> dict[str, Any]:
    """Write one safetensors file, deterministic to the byte; hand on its entry in the manifest."""
    plain = {name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for name, a in sorted(arrays.items())}
    for name, array in plain.items():
        if array.dtype not in _NAMES:
            raise OutputError(f"array {name!r}: the format holds {', '.join(_DTYPES)}, not {array.dtype}")
    specs = {name: {"dtype": _NAMES[a.dtype], "shape": list(a.shape)} for name, a in plain.items()}
    header, places = _layout(specs)
    payload = [plain[name].reshape(-1).view(np.uint8).data for name in places]
    size, digest = _write_parts(path, [header, *payload])
    return {"file": path.name, "bytes": size, "blake2b": digest, "arrays": specs}


def _layout(specs: Mapping[str, Any]) -> tuple[bytes, dict[str, slice]]:
    """Hand on the header of a safetensors file, and each array's place behind it, in the order of the file.

    Wide elements come first and the header is padded, so that every array is aligned.
    """
    header, places, at = {}, {}, 0
    for name in sorted(specs, key=lambda name: (-_DTYPES[specs[name]["dtype"]].itemsize, name)):
        spec = specs[name]
        end = at + math.prod(spec["shape"]) * _DTYPES[spec["dtype"]].itemsize
        header[name] = {"dtype": spec["dtype"], "shape": spec["shape"], "data_offsets": [at, end]}
        places[name], at = slice(at, end), end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text, places


def _render_manifest(values: Mapping[str, Any], entries: Mapping[str, Any]) -> bytes:
    head = {"format": FORMAT, "version": VERSION, "created_with": f"consmrf {_package_version()}"}
    text = json.dumps({**head, **values, "files": entries}, indent=2, allow_nan=False)
    body = text.removesuffix("\n}").encode() + b",\n"
    return body + _seal(body)


def _seal(body: bytes) -> bytes:
    return _SEAL + f'"{_new_digest(body).hexdigest()}"\n}}\n'.encode()


def _new_digest(data: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=32)


def _package_version() -> str:
    try:
        return metadata.version("consmrf")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "(not installed)"


def _write_parts(path: Path, parts: list[bytes | memoryview]) -> tuple[int, str]:
    """Write a new file through to the disk; hand on its size and digest."""
    digest = _new_digest()
    with open(path, "xb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
        file.flush()
        os.fsync(file.fileno())
        return file.tell(), digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the names in the folder survive a power cut, where the system lets folders be synced."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    descriptor = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> Stored:
    """Hand on what `write` took; arrays are read-only, and mapped if `mmap`. Damage is a ModelFileError.

    `verify=False` leaves out the digests of the array files, which cost one pass over them.
    """
    folder = Path(path)
    data = _read_manifest(folder)
    for _ in range(ATTEMPTS):
        manifest = _parse_manifest(data, folder / MANIFEST)
        try:
            files = _read_files(folder, manifest.pop("files"), mmap, verify)
        except FileNotFoundError as error:
            before, data = data, _read_manifest(folder)
            if data == before:
                raise ModelFileError(f"{error.filename}: missing, though {MANIFEST} names it") from None
            continue  # a save has replaced the model since its manifest was read
        except OSError as error:
            raise ModelFileError(f"{error.filename or folder}: {error.strerror or error}") from error
        return Stored(manifest, files)
    raise ModelFileError(f"{folder}: was replaced {ATTEMPTS} times while being read; try again")


def _read_manifest(folder: Path) -> bytes:
    path = folder / MANIFEST
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        what = "not a consmrf model" if folder.exists() else "no such model"
        raise ModelFileError(f"{folder}: {what}: a model is a folder with a {MANIFEST}") from None
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror}") from error


def _parse_manifest(data: bytes, path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        raise ModelFileError(f"{path}: damaged or cut short; {_REMEDY}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{path}: not the manifest of a consmrf model, or damaged")
    version = manifest.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelFileError(
            f"{path}: version {version} of the model format; consmrf {_package_version()} reads up to "
            f"version {VERSION}: upgrade consmrf"
        )
    body = data.rpartition(_SEAL)[0]
    sealed = data == body + _seal(body) and version in range(1, VERSION + 1)
    if not sealed or not isinstance(manifest.get("files"), dict):
        raise ModelFileError(f"{path}: altered or damaged; {_REMEDY}")
    return manifest


def _read_files(
    folder: Path, entries: Mapping[str, Any], mmap: bool, verify: bool
) -> dict[str, dict[str, NDArray[Any]]]:
    """Open every file before reading any: once open, a file outlives a save that removes it."""
    with contextlib.ExitStack() as opened:
        handles = {}
        for group, entry in entries.items():
            if not isinstance(entry, dict) or not _ARRAY_FILE.fullmatch(str(entry.get("file"))):
                raise ModelFileError(f"{folder / MANIFEST}: {group!r} names no array file of a model")
            handles[group] = opened.enter_context(open(folder / entry["file"], "rb"))
        return {
            group: _read_arrays(handle, entries[group], mmap, verify) for group, handle in handles.items()
        }


def _read_arrays(
    file: BufferedReader, entry: Mapping[str, Any], mmap: bool, verify: bool
) -> dict[str, NDArray[Any]]:
    size = os.fstat(file.fileno()).st_size
    if size != entry.get("bytes"):
        raise ModelFileError(
            f"{file.name}: {size} bytes instead of {entry.get('bytes')}: cut or altered; {_REMEDY}"
        )
    if verify and hashlib.file_digest(file, _new_digest).hexdigest() != entry.get("blake2b"):
        raise ModelFileError(f"{file.name}: altered or damaged; {_REMEDY}")
    try:
        specs = entry["arrays"]
        header, places = _layout(specs)
        file.seek(0)
        if file.read(len(header)) != header:
            raise ValueError("its header is another")
        payload = _payload(file, len(header), mmap)
        return {
            name: payload[at].view(_DTYPES[specs[name]["dtype"]]).reshape(specs[name]["shape"])
            for name, at in places.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{file.name}: does not hold the arrays that {MANIFEST} says: {error}") from None


def _payload(file: BufferedReader, begin: int, mmap: bool) -> NDArray[np.uint8]:
    if mmap:
        return np.asarray(np.memmap(file, np.uint8, "r"))[begin:]
    file.seek(begin)
    payload = np.fromfile(file, np.uint8)
    payload.flags.writeable = False
    return payload
