"""The Open Inference Protocol as KServe's own REST client speaks it.

It calls a running service in all its ways, and its answers are compared with those of the model
offline. It is installed into an environment of its own below --folder: too much hangs on it for an
extra of this project.

    python -m benchmarks.protocol_clients
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from algorithms.interface.model import Model
from algorithms.registry import load_model
from benchmarks.serving_calls import KEY
from benchmarks.serving_servers import environment_of, sibling
from sibling import Client

N_ROWS, WIDTH = 7, 5
TASKS = ("north", "süd")

KSERVE = """
import asyncio, json, sys
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

url, key, folder = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {key}"}
arrays = np.load(f"{folder}/arrays.npz")
DTYPES = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "INT8": np.int8,
          "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
          "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64}


def rows_of(datatype, is_binary):
    found = InferInput("rows", list(arrays["rows"].shape), datatype)
    found.set_data_from_numpy(arrays["rows"].astype(DTYPES[datatype]), binary_data=is_binary)
    return found


async def ask(client, name, inputs, task=None, outputs=None, **parameters):
    if task is not None:
        parameters["task"] = task
    request = InferRequest(name, inputs, request_id="42", parameters=parameters,
                           request_outputs=outputs)
    answer = await client.infer(url, request, model_name=name, headers=dict(HEADERS))
    assert answer.id == "42", answer  # the client drops the version of the response
    return answer


async def main():
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    assert await client.is_server_live(url)
    assert await client.is_server_ready(url)
    assert await client.is_model_ready(url, "matrix", headers=dict(HEADERS))
    n = 3
    for datatype in DTYPES:
        for is_binary in (True, False):
            if datatype == "FP16" and not is_binary:
                continue  # the client itself refuses it
            for how in (None, True, False, "all"):
                outputs, parameters = None, {}
                if how == "all":
                    parameters = {"binary_data_output": True}
                elif how is not None:
                    outputs = [RequestedOutput("transform", {"binary_data": how})]
                answer = await ask(client, "matrix", [rows_of(datatype, is_binary)], "north",
                                   outputs, **parameters)
                found = answer.outputs[0].as_numpy()
                np.testing.assert_allclose(found, arrays["north"], rtol=1e-12)
                n += 1
    for is_binary in (True, False):
        tasks = json.loads(str(arrays["tasks"]))
        named = InferInput("task", [len(tasks)], "BYTES")
        texts = np.array([task.encode() for task in tasks], dtype=np.object_)
        named.set_data_from_numpy(texts, binary_data=is_binary)
        answer = await ask(client, "matrix.transform", [rows_of("FP64", is_binary), named])
        np.testing.assert_allclose(answer.outputs[0].as_numpy(), arrays["mixed"], rtol=1e-12)
        n += 1
    for name, status in (("none", 404), ("matrix.predict", 404)):
        try:
            await ask(client, name, [rows_of("FP64", True)], "north")
        except Exception as error:
            assert error.response.status_code == status, error
            n += 1
        else:
            raise AssertionError(f"{name} was answered")
    await client.close()
    print(f"{n} calls of KServe's client are answered as the model offline answers")


asyncio.run(main())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "peers")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with sibling(folder / "ours") as (port, _):
            url = f"http://127.0.0.1:{port}"
            write_expected(train(url, folder), folder)
            python = environment_of("kserve", options.folder) / "bin" / "python"
            (folder / "matrix.py").write_text(KSERVE)
            # not in this project's folder, whose packages it would find first
            subprocess.run([python, "matrix.py", url, KEY, folder], cwd=folder, check=True)


def train(url: str, folder: Path) -> Model:
    rng = np.random.default_rng(0)
    with Client(url, api_key=KEY) as client:
        data = client.upload({task: rng.standard_normal((40, WIDTH)) for task in TASKS})
        model = client.train(data, "rmt-pca", model="matrix", k=2).wait()
        return load_model(model.download(folder / "matrix.safetensors"))


def write_expected(model: Model, folder: Path) -> None:
    rows = np.random.default_rng(1).integers(0, 9, (N_ROWS, WIDTH)).astype(float)
    tasks = [TASKS[i % 2] for i in range(N_ROWS)]
    mixed = [model.transform(rows[i : i + 1], task=task)[0] for i, task in enumerate(tasks)]
    north = model.transform(rows, task="north")
    arrays = {"rows": rows, "north": north, "mixed": np.array(mixed), "tasks": json.dumps(tasks)}
    np.savez(folder / "arrays.npz", **arrays)


if __name__ == "__main__":
    sys.exit(main())
