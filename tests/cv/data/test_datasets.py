"""The data sets of pdl-cv on small sound files, and on the real ones where they are at hand."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataLoader, check
from pdl.data import transforms as T
from pdl.errors import ConfigError, DataError
from pdl_cv.data import CIFAR10, MNIST, Digits, FashionMNIST, ImageFolder, ImageList, QuarterTurns, read_idx
from tests.cv.data.broken import cifar_binary, cifar_tar, encoded, idx, image_folder, image_list, mnist, picture


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = tmp_path_factory.mktemp("store")
    monkeypatch.setenv("PDL_DATA", str(store))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path_factory.mktemp("cache")))
    return store


def test_digits() -> None:
    parts = {split: Digits(split=split) for split in ("train", "val", "test", "all")}
    assert [len(d) for d in parts.values()] == [1258, 180, 359, 1797]
    image = parts["all"][0]["image"]
    assert image.shape == (8, 8, 1)
    assert image.dtype == np.uint8
    assert parts["all"].images.max() == 255
    assert Digits(split="val", mode="rgb")[0]["image"].shape == (8, 8, 3)
    assert Digits(split="val", seed=1).fingerprint != parts["val"].fingerprint == Digits(split="val").fingerprint
    assert check({k: v for k, v in parts.items() if k != "all"}) == []
    with pytest.raises(ConfigError, match="'dev' is none of train, val, test, all"):
        Digits(split="dev")


def test_idx_types(tmp_path: Path) -> None:
    for code, dtype in ((0x08, "u1"), (0x09, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        data = bytes([0, 0, code, 2]) + idx(np.zeros((2, 3)))[4:12] + array.tobytes()
        (tmp_path / "x").write_bytes(data)
        (tmp_path / "x.gz").write_bytes(gzip.compress(data))
        for path in (tmp_path / "x", tmp_path / "x.gz"):
            out = read_idx(path)
            np.testing.assert_array_equal(out, array)
            assert out.dtype.isnative


def test_mnist_splits(tmp_path: Path) -> None:
    mnist(tmp_path)
    assert [len(MNIST(tmp_path, split=s)) for s in ("train", "test")] == [20, 10]
    ratios = {"train": 0.5, "val": 0.5}
    halves = [MNIST(tmp_path, split=s, ratios=ratios) for s in ("train", "val")]
    assert [len(h) for h in halves] == [10, 10]
    assert [np.bincount(h.labels).tolist() for h in halves] == [[1] * 10] * 2
    assert len(MNIST(tmp_path, split="test", ratios=ratios)) == 10
    with pytest.raises(ConfigError, match="cut it out of train"):
        MNIST(tmp_path, split="val")
    with pytest.raises(ConfigError, match="must name train"):
        MNIST(tmp_path, split="val", ratios={"val": 0.1})
    with pytest.raises(ConfigError, match="mode='bgr'"):
        MNIST(tmp_path, mode="bgr")  # type: ignore[arg-type]


def test_found_under_the_store(own_store: Path) -> None:
    (own_store / "fashion-mnist").mkdir()
    mnist(own_store / "fashion-mnist")
    dataset = FashionMNIST(split="test")
    assert len(dataset) == 10
    assert dataset.classes[9] == "Ankle boot"
    assert dataset.path_of(0).startswith(str(own_store))
    image_folder(own_store / "pets")
    assert len(ImageFolder("pets", split="val")) == 8


def test_image_folder(tmp_path: Path) -> None:
    image_folder(tmp_path)
    (tmp_path / "train" / "cat" / "more").mkdir()
    (tmp_path / "train" / "cat" / "more" / "x.PNG").write_bytes(encoded(77))
    (tmp_path / "train" / "cat" / ".hidden.png").write_bytes(b"")
    (tmp_path / "train" / "cat" / "notes.txt").write_text("")
    dataset = ImageFolder(tmp_path, split="train")
    assert dataset.classes == ["cat", "dog"]
    assert dataset.labels.tolist() == [0] * 5 + [1] * 4
    assert dataset.paths[3:5] == ["cat/003.png", "cat/more/x.PNG"]
    np.testing.assert_array_equal(dataset[4]["image"], picture(77)[..., ::-1])
    assert ImageFolder(tmp_path / "train", mode="gray")[0]["image"].shape == (16, 16, 1)
    assert len(ImageFolder(tmp_path / "val")) == 8
    before = dataset.fingerprint
    (tmp_path / "train" / "dog" / "001.png").unlink()
    assert ImageFolder(tmp_path, split="train").fingerprint != before


def test_image_folder_classes_come_from_train(tmp_path: Path) -> None:
    image_folder(tmp_path, ("ant", "bee", "cat"))
    for file in (tmp_path / "val" / "ant").iterdir():
        file.unlink()
    (tmp_path / "val" / "ant").rmdir()
    dataset = ImageFolder(tmp_path, split="val")
    assert dataset.classes == ["ant", "bee", "cat"]
    assert set(dataset.labels.tolist()) == {1, 2}


def test_image_folder_by_ratio(tmp_path: Path) -> None:
    image_folder(tmp_path, splits=("train", "test"), each=40)
    ratios = {"train": 0.75, "val": 0.25}
    train, val = (ImageFolder(tmp_path, split=s, ratios=ratios) for s in ("train", "val"))
    assert sorted(train.paths + val.paths) == ImageFolder(tmp_path, split="train").paths
    assert 10 <= len(val) <= 30
    assert len(ImageFolder(tmp_path, split="test", ratios=ratios)) == 80
    flat = ImageFolder(tmp_path / "train", split="train", ratios=ratios)
    assert flat.paths == train.paths
    with pytest.raises(ConfigError, match="no split"):
        ImageFolder(tmp_path, ratios=ratios)


def test_image_list(tmp_path: Path) -> None:
    image_list(tmp_path, ["0.png\t0", "", "1.png dog", "sub dir/2.png\t1"])
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir" / "2.png").write_bytes(encoded(2))
    dataset = ImageList(tmp_path / "train.txt", classes=tmp_path / "names.txt")
    assert dataset.classes == ["cat", "dog"]
    assert dataset.labels.tolist() == [0, 1, 1]
    assert dataset.lines == [1, 3, 4]
    np.testing.assert_array_equal(dataset[2]["image"], picture(2)[..., ::-1])
    (tmp_path / "n.txt").write_text("0.png 0\n1.png 2\n")
    assert ImageList(tmp_path / "n.txt").classes == ["0", "1", "2"]
    (tmp_path / "w.txt").write_text("0.png dog\n1.png ant\n")
    assert ImageList(tmp_path / "w.txt").labels.tolist() == [1, 0]


def test_image_list_that_tells_splits(tmp_path: Path) -> None:
    """All splits have the classes of the whole list; ratios cut those of train."""
    lines = [f"{i}.png\t{('cat', 'dog')[i % 2]}\ttrain" for i in range(40)]
    file = tmp_path / "list.tsv"
    file.write_text("\n".join([*lines, "40.png\tdog\ttest", "a b.png\tdog\ttest"]))
    ratios = {"train": 0.75, "val": 0.25}
    train, val, test = (ImageList(file, split=split, ratios=ratios) for split in ("train", "val", "test"))
    assert (len(train), len(val)) == (30, 10)
    assert np.bincount(val.labels).tolist() == [5, 5]
    assert sorted([*train.paths, *val.paths]) == sorted(ImageList(file, split="train").paths)
    assert test.classes == ["cat", "dog"]
    assert (test.paths, test.labels.tolist(), test.lines) == (["40.png", "a b.png"], [1, 1], [41, 42])
    assert len(ImageList(file)) == 42
    plain = tmp_path / "plain.txt"
    plain.write_text("\n".join(line.rpartition("\t")[0] for line in lines))
    assert ImageList(plain, split="val", ratios=ratios).paths == val.paths
    with pytest.raises(ConfigError, match="no split"):
        ImageList(file, ratios=ratios)
    with pytest.raises(DataError, match="no images for split 'dev', only test, train"):
        ImageList(file, split="dev")
    with pytest.raises(DataError, match="its lines name no splits"):
        ImageList(plain, split="val")
    file.write_text("0.png\tcat\ttrain\n1.png\tdog\n")
    with pytest.raises(DataError, match=r"list\.tsv:2.*names no split"):
        ImageList(file)


def test_cifar_forms_agree(tmp_path: Path, own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    tar = tmp_path / "cifar10.tar"
    tar.write_bytes(cifar_tar())
    with tarfile.open(tar) as archive:
        archive.extractall(tmp_path / "folder", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    a, b = CIFAR10(tar, partial=True), CIFAR10(tmp_path / "folder", partial=True)
    assert a.fingerprint == b.fingerprint
    assert len(a) == 20
    assert a.images.shape[1:] == (32, 32, 3)
    assert len(list((tmp_path / "cache/decoded").iterdir())) == 4
    assert not list(own_store.iterdir())
    assert CIFAR10(tar, partial=True, split="test", mode="gray").images.shape == (20, 32, 32, 1)
    with pytest.raises(Exception, match="20 images in split train, expected 50000"):
        CIFAR10(tar)


def test_cifar_binary_planes(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    cifar_binary(tmp_path / "cifar-10-batches-bin")
    dataset = CIFAR10(tmp_path, split="test", partial=True)
    raw = np.frombuffer((tmp_path / "cifar-10-batches-bin" / "test_batch.bin").read_bytes(), np.uint8).reshape(3, 3073)
    assert dataset.labels.tolist() == raw[:, 0].tolist()
    assert (dataset.images[1, 5, 7] == raw[1, [1 + c * 1024 + 5 * 32 + 7 for c in range(3)]]).all()
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    packed = CIFAR10(tmp_path / "cifar-10-binary.tar.gz", split="test", partial=True)
    assert packed.fingerprint == dataset.fingerprint


def test_real_fashion_mnist() -> None:
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("Debian's dataset-fashion-mnist is not installed")
    dataset = FashionMNIST(split="test")
    assert dataset.images.shape == (10000, 28, 28, 1)
    assert np.bincount(dataset.labels).tolist() == [1000] * 10
    assert dataset.labels[:10].tolist() == [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]
    transforms = [T.RandomCrop(28, padding=2), T.Normalize(0.286, 0.353)]
    loader = DataLoader(dataset, batch_size=128, transforms=transforms)
    assert next(iter(loader))["image"].dtype == np.float32


@pytest.mark.slow
def test_real_cifar10() -> None:
    beside = Path(__file__).resolve().parents[3].parent / "shared" / "data"
    file = Path(os.environ.get("PDL_TEST_DATA", beside)) / "cv2" / "cifar10_jpeg.tar.xz"
    if not file.is_file():
        pytest.skip(f"{file} is not there; name its folder by PDL_TEST_DATA")
    for split, count in (("train", 5000), ("test", 1000)):
        dataset = CIFAR10(file, split=split)
        assert np.bincount(dataset.labels).tolist() == [count] * 10


def test_a_smaller_problem_out_of_a_data_set() -> None:
    whole = Digits(split="all")
    some = Digits(split="all", classes=["7", "1"], per_class=5)
    assert some.classes == ["7", "1"]
    assert np.bincount(some.labels).tolist() == [5, 5]
    for image, label in zip(some.images, some.labels, strict=True):  # each is an image of its class in the whole set
        same = (whole.images == image).all(axis=(1, 2, 3))
        assert set(whole.labels[same]) == {(7, 1)[label]}
    assert check({"train": some}) == []
    again, other = (Digits(split="all", classes=["7", "1"], per_class=5, seed=seed) for seed in (0, 1))
    assert some.fingerprint == again.fingerprint != other.fingerprint
    more = Digits(split="all", classes=["7", "1"], per_class=20)
    assert {image.tobytes() for image in some.images} < {image.tobytes() for image in more.images}


def test_few_images_are_drawn_from_their_own_split() -> None:
    few = {split: Digits(split=split, per_class=9) for split in ("train", "val", "test")}
    for split, dataset in few.items():
        own = {image.tobytes() for image in Digits(split=split).images}
        assert {image.tobytes() for image in dataset.images} <= own
        assert np.bincount(dataset.labels).tolist() == [9] * 10


def test_few_pictures_of_a_folder(tmp_path: Path) -> None:
    image_folder(tmp_path)
    whole, few = ImageFolder(tmp_path, split="train"), ImageFolder(tmp_path, split="train", per_class=1)
    assert len(few) == len(whole.classes) < len(whole)
    assert few.labels.tolist() == list(range(len(whole.classes)))
    assert [few.path_of(i).split(os.sep)[-2] for i in range(len(few))] == whole.classes
    assert few[0]["image"].shape[-1] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"classes": ["7", "77"]}, "Digits: classes: '77' is none of 0, 1, .*; did you mean '7'"),
        ({"classes": ["7", "7"]}, "each once"),
        ({"classes": []}, "one name or more"),
        ({"per_class": 30}, "per_class=30, but class '0' has 17 samples in this split"),
    ],
)
def test_no_such_smaller_problem(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Digits(split="val", **arguments)


def test_classes_that_are_turned(tmp_path: Path) -> None:
    image_folder(tmp_path)
    plain = ImageFolder(tmp_path, split="train")
    turned, count = QuarterTurns(plain), len(plain)
    assert len(turned) == 4 * count
    assert turned.classes == [name + turn for turn in ("", "@90", "@180", "@270") for name in plain.classes]
    for index in (0, count + 1, 2 * count, 4 * count - 1):
        turn, row = divmod(index, count)
        sample, before = turned[index], plain[row]
        image = before["image"]
        for _ in range(turn):  # what was the right edge is at the top
            image = image.transpose(1, 0, 2)[::-1]
        np.testing.assert_array_equal(sample["image"], image)
        assert sample["label"] == turned.labels[index] == before["label"] + turn * len(plain.classes)
        assert turned.path_of(index) == plain.path_of(row)
    assert turned.fingerprint != plain.fingerprint
    with pytest.raises(ConfigError, match="turn it once"):
        QuarterTurns(turned)
