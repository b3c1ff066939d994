"""TLVM on faces over HTTP: fit to Yale, adapt to a few rows of ORL, reconstruct unseen faces.

    python -m benchmarks.tlvm_faces --data FOLDER [--rows 20] [--picture faces.png]

A job fits TLVM to Yale; another adapts this model to a few rows of ORL. Held-out faces of ORL are
reconstructed through the client, and their left halves are hidden and imputed. The picture also
shows the reconstructions of the source's model, and of PCA and GP-LVM of the same few rows.
Finally, the comparison report of a job that learns both databases is printed.
"""

import argparse
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import servers
from sibling import Client, Dataset, RemoteModel

Array = NDArray[np.float64]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--rows", type=int, default=20, help="rows of ORL to adapt with")
parser.add_argument("--picture", type=Path, help="PNG file to write")

L, R, N_SHOWN, SIZE = 10, 40, 12, 32


def main() -> None:
    options = parser.parse_args()
    yale, orl = (faces(options.data / f"{name}_32x32.npz") for name in ("yale", "orl"))
    order = np.random.default_rng(0).permutation(len(orl))
    few, unseen = orl[order[: options.rows]], orl[order[200:]]
    with servers.service() as client:
        target = client.upload({"orl": few}, name="orl")
        models = {
            "TLVM, adapted": adapt(client, yale, target),
            "the source's model": train_on_both(client, yale, few, "gp-lvm", rows="source"),
            "GP-LVM of the few": client.train(target, "gp-lvm", model="few", L=L, r=R).wait(),
            "PCA of the few": client.train(
                target, "pca", model="pca", k=min(L, len(few) - 1)
            ).wait(),
        }
        strips = [unseen[:N_SHOWN]]
        print(f"\nORL from {len(few)} rows, error of {len(unseen)} held-out faces")
        for name, model in models.items():
            images = reconstruct(model, unseen)
            strips.append(images[:N_SHOWN])
            print(f"  {name:22} {np.linalg.norm(images - unseen, axis=1).mean():7.3f}")
        strips += impute(models["TLVM, adapted"], unseen)
        variance = models["TLVM, adapted"].variance(unseen, task="orl")
        print(f"  predicted standard deviation {np.sqrt(variance).mean():.3f}")
        if options.picture is not None:
            write_png(options.picture, mosaic(strips))
            print(f"{options.picture}: faces; the models above in order; left half hidden; imputed")
        report(client, yale, few)


def faces(path: Path) -> Array:
    with np.load(path, allow_pickle=False) as file:
        return file["X"].astype(np.float64) / 255


def adapt(client: Client, yale: Array, target: Dataset) -> RemoteModel:
    source = client.upload({"yale": yale}, name="yale")
    base = client.train(source, "tlvm", model="faces", L=L, r=R).wait()
    model = client.adapt(base, target, name="faces-of-orl").wait()
    lineage = model.info["lineage"]
    print(f"{model.name} ({', '.join(model.tasks)}) was adapted from {lineage['base_id']}")
    before, after = (m.transform(yale[:50], task="yale") for m in (base, model))
    assert np.array_equal(before, after), "the source model has changed"
    return model


def train_on_both(
    client: Client, yale: Array, few: Array, algorithm: str, **params: Any
) -> RemoteModel:
    both = client.upload({"yale": yale, "orl": few}, name="both")
    return client.train(
        both, algorithm, model=f"both-{algorithm}", source="yale", L=L, r=R, **params
    ).wait()


def reconstruct(model: RemoteModel, rows: Array) -> Array:
    if "reconstruct" in model.info["methods"]:
        return model.reconstruct(rows, task="orl")
    return model.inverse_transform(model.transform(rows, task="orl"), task="orl")


def impute(model: RemoteModel, rows: Array) -> list[Array]:
    """Return faces whose left half is hidden, and the same faces with imputed left halves."""
    hidden = rows.reshape(-1, SIZE, SIZE).copy()
    hidden[:, :, : SIZE // 2] = np.nan
    incomplete = hidden.reshape(len(rows), -1)
    images = model.reconstruct(incomplete, task="orl")
    left = np.isnan(incomplete)
    error = np.linalg.norm(np.where(left, images - rows, 0.0), axis=1).mean()
    plain = np.linalg.norm(np.where(left, rows.mean(axis=0) - rows, 0.0), axis=1).mean()
    print(f"  imputed left half      {error:7.3f}   the mean face {plain:.3f}")
    shown = np.where(left, 0.0, rows)[:N_SHOWN]
    return [shown, np.where(left, images, rows)[:N_SHOWN]]


def report(client: Client, yale: Array, few: Array) -> None:
    both = client.upload({"yale": yale, "orl": few}, name="both")
    splits = {"scheme": "holdout", "n_splits": 5, "test_size": 0.3}
    job = client.train(
        both, "tlvm", model="compared", source="yale", L=L, r=R, compare={"splits": splits}
    )
    found = job.wait().report()["comparison"]
    print(f"\ncomparison: {found['verdict']}", *found["sentences"], sep="\n  ")
    print("  " + found["tasks"]["orl"]["sentence"])


def mosaic(rows: list[Array]) -> NDArray[np.uint8]:
    """Return one image with a row of faces for each array."""
    strips = [np.hstack(list(images.reshape(-1, SIZE, SIZE))) for images in rows]
    return (255 * np.clip(np.vstack(strips), 0, 1)).astype(np.uint8)


def write_png(path: Path, grey: NDArray[np.uint8]) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


if __name__ == "__main__":
    main()
