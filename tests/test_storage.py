"""The model folder: what is saved is loaded, damage is refused, and a save that fails changes nothing."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from consmrf import storage
from consmrf.errors import ModelFileError, OutputError
from consmrf.graph.vocabulary import Vocabulary
from consmrf.model import Model
from consmrf.predictors import Factors
from test_model import ENTITIES, RELATIONS, make_model

GOLDEN = Path(__file__).parent / "data" / "model_v1"
BOTH = pytest.mark.parametrize("kind", ["factors", "counts"])


def all_scores(model):
    """Every score of both sides, as bytes."""
    ids = np.arange(len(model.entities), dtype=np.int32)
    sides = (model.object_scores, model.subject_scores)
    return b"".join(side(r, ids).tobytes() for side in sides for r in range(len(model.relations)))


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def arrays_of(folder):
    """The array files, without the token in their names."""
    return {name.split("-")[0]: data for name, data in content(folder).items() if name != "manifest.json"}


def reseal(folder, change):
    """Alter the manifest and make its digest true again, as only a programmer could."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    del manifest["digest"]
    change(manifest)
    body = json.dumps(manifest, indent=2).removesuffix("\n}").encode() + b",\n"
    path.write_bytes(body + storage._seal(body))


# what is saved is loaded


@pytest.mark.parametrize("mmap", [True, False])
@BOTH
def test_a_loaded_model_is_the_saved_one(tmp_path, kind, mmap):
    model = make_model(kind)
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m", mmap=mmap)
    assert (loaded.entities, loaded.relations) == (ENTITIES, RELATIONS)
    assert all_scores(loaded) == all_scores(model)
    assert loaded.objects("ABBA", "genre", top=3) == model.objects("ABBA", "genre", top=3)
    np.testing.assert_array_equal(loaded.known, model.known)
    assert (loaded.config, loaded.provenance) == (model.config, model.provenance)
    assert repr(loaded) == repr(model)


@pytest.mark.parametrize("mmap", [True, False])
def test_arrays_are_aligned_read_only_and_mapped_when_asked(tmp_path, mmap):
    make_model().save(tmp_path / "m")
    predictor = Model.load(tmp_path / "m", mmap=mmap).predictor
    for array in predictor.arrays().values():
        assert array.flags.aligned
        assert not array.flags.writeable
        assert type(array) is np.ndarray
        base = array
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        assert (type(base).__name__ == "mmap") == mmap


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_precision_and_odd_models_survive(tmp_path, precision):
    labels = ("", " ", "\n", '"', "a\tb", "\ud800", "\u00e9", "e\u0301")
    none = np.array([], np.int32)
    z = np.asfortranarray(np.arange(16).reshape(8, 2).astype(precision))
    predictor = Factors("identity", z, np.empty((1, 0), precision), np.zeros(2, np.int64), none, z[:0])
    model = Model(Vocabulary(labels, ("",)), np.empty((0, 3), np.int32), predictor)
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    assert loaded.entities == labels
    assert loaded.relations == ("",)
    assert loaded.config is None
    assert loaded.predictor.z.dtype == precision
    assert all_scores(loaded) == all_scores(model)


def test_the_same_model_saved_twice_has_the_same_array_files(tmp_path):
    model = make_model()
    model.save(tmp_path / "a")
    Model.load(tmp_path / "a").save(tmp_path / "b")
    assert arrays_of(tmp_path / "a") == arrays_of(tmp_path / "b")
    assert set(arrays_of(tmp_path / "a")) == {"predictor", "triples", "vocabulary"}


def test_array_files_are_safetensors_to_others(tmp_path):
    model = make_model()
    model.save(tmp_path / "m")
    (path,) = (tmp_path / "m").glob("predictor-*")
    loaded = safetensors.numpy.load_file(path)
    for name, array in model.predictor.arrays().items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype


def test_the_manifest_tells_what_the_model_is(tmp_path):
    make_model().save(tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert (manifest["format"], manifest["version"], manifest["kind"]) == ("consmrf model", 1, "factors")
    assert manifest["created_with"].startswith("consmrf ")
    assert manifest["settings"] == {"scorer": "diagonal", "dim": 3}
    assert (manifest["config"]["dim"], manifest["seed"]) == (3, 0)
    assert manifest["provenance"] == {"command": "fit x.tsv"}
    assert manifest["files"]["predictor"]["arrays"]["z"] == {"dtype": "F32", "shape": [7, 3]}
    for data in content(tmp_path / "m").values():
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError)):
            pickle.loads(data)


@BOTH
@pytest.mark.parametrize("mmap", [True, False])
def test_format_version_1_keeps_loading(kind, mmap):
    expected = json.loads((GOLDEN / "expected.json").read_text())[kind]
    model = Model.load(GOLDEN / f"{kind}.consmrf", mmap=mmap)
    ids = np.arange(len(model.entities), dtype=np.int32)
    assert list(model.entities) == expected["entities"]
    assert list(model.relations) == expected["relations"]
    assert model.known.tolist() == expected["known"]
    assert model.config.to_dict().items() >= expected["config"].items()
    assert model.provenance == expected["provenance"]
    for r in range(len(model.relations)):
        assert model.object_scores(r, ids).tolist() == expected["object_scores"][r]
        assert model.subject_scores(r, ids).tolist() == expected["subject_scores"][r]


# damage is refused


@BOTH
def test_any_altered_byte_is_refused(tmp_path, kind):
    make_model(kind).save(tmp_path / "m")
    for name, data in content(tmp_path / "m").items():
        path = tmp_path / "m" / name
        with open(path, "r+b", buffering=0) as file:
            for i in range(len(data)):
                os.pwrite(file.fileno(), bytes([data[i] ^ (1 << i % 8)]), i)
                with pytest.raises(ModelFileError) as caught:
                    Model.load(tmp_path / "m")
                assert name in str(caught.value), (name, i)
                os.pwrite(file.fileno(), data[i : i + 1], i)
        Model.load(tmp_path / "m")


@pytest.mark.parametrize("mmap", [True, False])
def test_any_cut_or_addition_is_refused(tmp_path, mmap):
    make_model().save(tmp_path / "m")
    for name, data in content(tmp_path / "m").items():
        path = tmp_path / "m" / name
        for spoilt in [data[:n] for n in {0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1}] + [
            data + b"\n"
        ]:
            path.write_bytes(spoilt)
            with pytest.raises(ModelFileError, match=name):
                Model.load(tmp_path / "m", mmap=mmap)
        path.unlink()
        with pytest.raises(ModelFileError, match=name):
            Model.load(tmp_path / "m", mmap=mmap)
        path.write_bytes(data)
    Model.load(tmp_path / "m", mmap=mmap)


def test_unverified_damage_is_refused_or_harmless_but_never_a_crash(tmp_path):
    model = make_model()
    model.save(tmp_path / "m")
    (path,) = (tmp_path / "m").glob("predictor-*")
    data = path.read_bytes()
    payload = 8 + int.from_bytes(data[:8], "little")
    for i in range(payload):
        path.write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        with pytest.raises(ModelFileError, match=path.name):
            Model.load(tmp_path / "m", verify=False)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    Model.load(tmp_path / "m", verify=False)


def test_a_later_version_asks_for_an_upgrade(tmp_path):
    make_model().save(tmp_path / "m")
    reseal(tmp_path / "m", lambda m: m.update(version=2))
    with pytest.raises(ModelFileError, match=r"version 2 .* up to version 1: upgrade consmrf"):
        Model.load(tmp_path / "m")


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "a/b.safetensors", "manifest.json", "", None, 3, []]
)
def test_a_file_name_that_leads_elsewhere_is_refused(tmp_path, name):
    make_model().save(tmp_path / "m")
    reseal(tmp_path / "m", lambda m: m["files"]["triples"].update(file=name))
    with pytest.raises(ModelFileError, match="names no array file"):
        Model.load(tmp_path / "m")


def set_path(*keys, to):
    def change(manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_path("kind", to="forest"),
        set_path("kind", to=[]),
        set_path("settings", to=None),
        set_path("settings", "scorer", to="cubic"),
        set_path("settings", "dim", to=4),
        set_path("config", "dim", to=0),
        set_path("config", "colour", to="red"),
        set_path("config", to=7),
        set_path("provenance", to=7),
        set_path("files", to=[]),
        set_path("files", to={}),
        set_path("files", "triples", to={}),
        set_path("files", "triples", "arrays", to={"known": {"dtype": "F16", "shape": [12, 3]}}),
        set_path("files", "triples", "arrays", to={"known": {"dtype": "I32", "shape": [13, 3]}}),
        set_path("files", "triples", "arrays", to={"known": {"dtype": "I32", "shape": [-12, -3]}}),
        set_path("files", "triples", "arrays", to={"known": {"dtype": [], "shape": None}}),
        set_path("files", "triples", "arrays", to=None),
        set_path("version", to=0),
        set_path("version", to="1"),
        set_path("version", to=None),
    ],
)
def test_a_sealed_manifest_that_makes_no_sense_is_refused(tmp_path, change):
    make_model().save(tmp_path / "m")
    reseal(tmp_path / "m", change)
    with pytest.raises(ModelFileError):
        Model.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: setattr(m, "known", m.known + 5), "no label"),
        (lambda m: setattr(m, "known", m.known - 9), "no label"),
        (lambda m: setattr(m, "known", m.known[:, :2]), "must be int32"),
        (lambda m: setattr(m, "known", m.known.astype(np.int64)), "must be int32"),
        (lambda m: setattr(m, "vocabulary", Vocabulary(ENTITIES[1:], RELATIONS)), "has labels for 6 and 2"),
        (lambda m: setattr(m, "vocabulary", Vocabulary(ENTITIES, ("r",))), "has labels for 7 and 1"),
        (lambda m: setattr(m, "vocabulary", Vocabulary(("x",) * 7, RELATIONS)), "occurs twice"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(tmp_path, change, match):
    model = make_model()
    change(model)
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=match):
        Model.load(tmp_path / "m")


def test_what_is_no_model_is_called_so(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path, match in (
        ("file", "not a consmrf model"),
        ("folder", "not a consmrf"),
        ("none", "no such model"),
    ):
        with pytest.raises(ModelFileError, match=match):
            Model.load(tmp_path / path)
    for other in ("{}", "[]", "1", '{"format": "parquet"}', "{", "\x00", "[" * 100_000):
        (tmp_path / "folder" / "manifest.json").write_text(other)
        with pytest.raises(ModelFileError, match=r"manifest\.json"):
            Model.load(tmp_path / "folder")


# a save replaces whole models


def test_saving_over_a_model_replaces_it_and_removes_stale_arrays(tmp_path):
    make_model().save(tmp_path / "m")
    before = set(content(tmp_path / "m"))
    mapped = Model.load(tmp_path / "m")
    expected = all_scores(mapped)
    (tmp_path / "m" / "README").write_text("mine")
    make_model("counts", seed=1).save(tmp_path / "m")
    after = set(content(tmp_path / "m"))
    assert before & after == {"manifest.json"}
    assert len(after) == 5
    assert "README" in after
    assert all_scores(Model.load(tmp_path / "m")) == all_scores(make_model("counts", seed=1))
    assert all_scores(mapped) == expected  # what was mapped stays readable


def test_a_mapped_model_can_be_saved_onto_itself(tmp_path):
    make_model().save(tmp_path / "m")
    Model.load(tmp_path / "m").save(tmp_path / "m")
    assert all_scores(Model.load(tmp_path / "m")) == all_scores(make_model())


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": "x"},
        {"manifest.json": '{"name": "web app"}'},
        {"manifest.json": "[1]"},
        {"manifest.json": "broken"},
        {"predictor.safetensors": "x"},
        None,
    ],
)
def test_saving_onto_something_else_is_refused_and_leaves_it(tmp_path, files):
    target = tmp_path / "mine"
    if files is None:
        target.write_text("a file")
    else:
        target.mkdir()
        for name, text in files.items():
            (target / name).write_text(text)
    before = target.read_bytes() if files is None else content(target)
    with pytest.raises(OutputError, match="choose another path"):
        make_model().save(target)
    assert (target.read_bytes() if files is None else content(target)) == before


def test_an_empty_folder_takes_a_model(tmp_path):
    make_model().save(tmp_path)
    assert all_scores(Model.load(tmp_path)) == all_scores(make_model())


def test_no_parent_folder(tmp_path):
    with pytest.raises(OutputError, match="No such file"):
        make_model().save(tmp_path / "none" / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folders(tmp_path):
    make_model().save(tmp_path / "m")
    before = content(tmp_path / "m")
    for folder, target in ((tmp_path / "m", "m"), (tmp_path, "new")):
        folder.chmod(0o500)
        try:
            with pytest.raises(OutputError, match="Permission denied"):
                make_model(seed=1).save(tmp_path / target)
        finally:
            folder.chmod(0o700)
    assert content(tmp_path / "m") == before


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
def test_provenance_that_json_cannot_hold_is_refused_before_anything_is_written(tmp_path, value):
    model = make_model()
    model.provenance["odd"] = value
    with pytest.raises(OutputError, match="JSON"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_an_array_type_the_format_lacks_is_refused(tmp_path):
    model = make_model()
    model.known = model.known.astype(np.int16)
    with pytest.raises(OutputError, match="int16"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


# a save that fails changes nothing

STEPS = ("open", "write", "os.fsync", "os.replace")


class Failing:
    """Lets the first `allowed` steps of a save pass, then raises."""

    def __init__(self, monkeypatch, error, allowed):
        self.error, self.left = error, allowed
        self.monkeypatch = monkeypatch
        real_open = open

        def opened(path, mode):
            file = real_open(path, mode)
            if "x" in mode:
                self.step(file.close)
                file = Counted(file, self)
            return file

        monkeypatch.setattr(storage, "open", opened, raising=False)
        for name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))

    def counted(self, function):
        def step_then_call(*arguments):
            self.step()
            return function(*arguments)

        return step_then_call

    def step(self, undo=lambda: None):
        if self.left == 0:
            undo()
            self.monkeypatch.undo()  # only the save fails, not what cleans up after it
            raise self.error
        self.left -= 1


class Counted:
    """A file whose writes are steps."""

    def __init__(self, file, failing):
        self.file, self.failing = file, failing

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, part):
        self.failing.step()
        return self.file.write(part)


FAILURES = pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OutputError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["disk full", "ctrl-C"],
)


@FAILURES
def test_a_save_that_fails_at_any_step_leaves_the_old_model(tmp_path, error, expected):
    old, new = make_model(), make_model(seed=1)
    old.save(tmp_path / "m")
    before = content(tmp_path / "m")
    for allowed in range(100):
        with pytest.MonkeyPatch.context() as monkeypatch:
            Failing(monkeypatch, error, allowed)
            with pytest.raises(expected, match=None if expected is KeyboardInterrupt else "No space left"):
                new.save(tmp_path / "m")
        if content(tmp_path / "m") != before:
            break
        assert all_scores(Model.load(tmp_path / "m")) == all_scores(old)
    # only the confirmation of the rename is left to fail: the new model is in place, and no step comes after
    assert allowed > 20
    assert all_scores(Model.load(tmp_path / "m")) == all_scores(new)
    with pytest.MonkeyPatch.context() as monkeypatch:
        Failing(monkeypatch, error, allowed + 1)
        new.save(tmp_path / "m")
    assert len(content(tmp_path / "m")) == 4


@FAILURES
def test_a_first_save_that_fails_leaves_nothing(tmp_path, error, expected):
    for allowed in range(100):
        with pytest.MonkeyPatch.context() as monkeypatch:
            Failing(monkeypatch, error, allowed)
            with pytest.raises(expected):
                make_model().save(tmp_path / "m")
        if list(tmp_path.iterdir()):
            break
    assert allowed > 20
    Model.load(tmp_path / "m")


def test_an_interrupt_just_after_the_rename_does_not_take_the_new_arrays(tmp_path, monkeypatch):
    make_model().save(tmp_path / "m")
    rename = os.replace

    def rename_then_interrupt(*paths):
        rename(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", rename_then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_model(seed=1).save(tmp_path / "m")
    assert all_scores(Model.load(tmp_path / "m")) == all_scores(make_model(seed=1))


def test_a_disk_that_takes_only_part_of_a_file(tmp_path):
    resource = pytest.importorskip("resource")
    make_model().save(tmp_path / "m")
    before = content(tmp_path / "m")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in range(0, len(before["manifest.json"]), 100):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(OutputError, match="File too large"):
                make_model().save(tmp_path / "m")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert content(tmp_path / "m") == before


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_model import make_model
left = int(sys.argv[3])
def until_the_end(function):
    def step(*arguments):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return function(*arguments)
    return step
os.fsync, os.replace = until_the_end(os.fsync), until_the_end(os.replace)
make_model(seed=1).save(sys.argv[2])
"""


def test_a_killed_save_leaves_a_model_and_the_next_save_sweeps_up(tmp_path):
    scores = {all_scores(make_model()): "old", all_scores(make_model(seed=1)): "new"}
    seen, fresh = [], tmp_path / "fresh"
    for steps in range(8):
        make_model().save(tmp_path / "m")
        for target in (tmp_path / "m", fresh):
            arguments = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(target), str(steps)]
            assert subprocess.run(arguments, check=False).returncode == (9 if steps < 7 else 0)
        seen.append(scores[all_scores(Model.load(tmp_path / "m"))])
        make_model().save(tmp_path / "m")
        make_model().save(fresh)
        assert len(content(tmp_path / "m")) == len(content(fresh)) == 4
        shutil.rmtree(fresh)
    assert (
        seen == ["old"] * 6 + ["new"] * 2
    )  # three files of arrays, the draft, the folder, the rename; the folder


# readers and savers at once


def test_a_reader_whose_model_is_replaced_meanwhile_reads_the_new_one(tmp_path, monkeypatch):
    make_model().save(tmp_path / "m")
    real, calls = storage._read_files, []

    def replaced_first(*arguments):
        calls.append(arguments)
        if len(calls) <= 3:
            make_model(seed=len(calls)).save(tmp_path / "m")
        return real(*arguments)

    monkeypatch.setattr(storage, "_read_files", replaced_first)
    assert all_scores(Model.load(tmp_path / "m")) == all_scores(make_model(seed=3))
    assert len(calls) == 4


def test_a_reader_gives_up_on_a_model_that_never_rests(tmp_path, monkeypatch):
    make_model().save(tmp_path / "m")
    real = storage._read_files

    def always_replaced(*arguments):
        make_model().save(tmp_path / "m")
        return real(*arguments)

    monkeypatch.setattr(storage, "_read_files", always_replaced)
    with pytest.raises(ModelFileError, match="replaced 10 times"):
        Model.load(tmp_path / "m")


def test_savers_and_readers_at_once_meet_whole_models_only(tmp_path):
    models = [make_model(seed=seed) for seed in range(2)]
    whole = {all_scores(model) for model in models}
    models[0].save(tmp_path / "m")
    failures = []

    def save_often(model):
        try:
            for _ in range(25):
                model.save(tmp_path / "m")
        except Exception as error:
            failures.append(error)

    savers = [threading.Thread(target=save_often, args=(model,)) for model in models]
    for saver in savers:
        saver.start()
    while any(saver.is_alive() for saver in savers):
        assert all_scores(Model.load(tmp_path / "m")) in whole
    for saver in savers:
        saver.join()
    assert failures == []
    assert len(content(tmp_path / "m")) == 4
