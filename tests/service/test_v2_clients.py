"""Calls with tritonclient, in every form and with every option."""

import asyncio
import re

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from algorithms.registry import load_model

pytestmark = pytest.mark.slow  # clients of others

ROWS = np.random.default_rng(3).standard_normal((300, 5))
DTYPES = {
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "INT8": np.int8,
    "INT64": np.int64,
    "UINT16": np.uint16,
}


@pytest.fixture(scope="module")
def offline(model, tmp_path_factory):
    return load_model(model.download(tmp_path_factory.mktemp("artifact") / "model.safetensors"))


@pytest.fixture(scope="module")
def address(service):
    """Its URL without the scheme, as this client takes it, and whether that is HTTPS."""
    scheme, _, url = service.url.partition("://")
    return {"url": url, "ssl": scheme == "https"}


@pytest.fixture(scope="module")
def client_of(address, model):
    del model
    with triton.InferenceServerClient(**address, concurrency=4) as client:
        yield client


def rows_input(rows, datatype="FP64", *, is_binary=True):
    tensor = triton.InferInput("rows", list(rows.shape), datatype)
    tensor.set_data_from_numpy(rows.astype(DTYPES[datatype]), binary_data=is_binary)
    return tensor


def task_input(tasks, *, is_binary=True):
    tensor = triton.InferInput("task", [len(tasks)], "BYTES")
    encoded = np.array([task.encode() for task in tasks], dtype=np.object_)
    tensor.set_data_from_numpy(encoded, binary_data=is_binary)
    return tensor


def test_the_client_reads_server_and_model_metadata(client_of):
    assert client_of.is_server_live()
    assert client_of.is_server_ready()
    assert client_of.is_model_ready("shared")
    assert client_of.is_model_ready("shared", "1")
    assert not client_of.is_model_ready("shared", "9")
    assert not client_of.is_model_ready("none")
    assert client_of.get_server_metadata()["name"] == "sibling"
    metadata = client_of.get_model_metadata("shared.inverse_transform")
    assert metadata["inputs"][0]["shape"] == [-1, 2]
    assert client_of.get_model_config("shared")["name"] == "shared"
    assert any(m["name"] == "shared" for m in client_of.get_model_repository_index())
    assert client_of.get_inference_statistics("shared")["model_stats"][0]["name"] == "shared"
    assert client_of.get_inference_statistics()["model_stats"]


@pytest.mark.parametrize("datatype", DTYPES)
@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("is_binary_out", [True, False, None])
def test_every_datatype_in_json_and_binary(client_of, offline, datatype, is_binary, is_binary_out):
    if datatype == "FP16" and not is_binary:
        pytest.skip("the client itself sends FP16 in binary only")
    rows = np.abs(np.round(8 * ROWS))
    outputs = (
        None
        if is_binary_out is None
        else [triton.InferRequestedOutput("transform", binary_data=is_binary_out)]
    )
    result = client_of.infer(
        "shared",
        [rows_input(rows, datatype, is_binary=is_binary)],
        outputs=outputs,
        request_id="42",
        parameters={"task": "süd"},
    )
    expected = offline.transform(rows, task="süd")
    np.testing.assert_array_equal(result.as_numpy("transform"), expected)
    response = result.get_response()
    assert (response["id"], response["model_version"]) == ("42", "1")


@pytest.mark.parametrize("is_binary", [True, False])
def test_each_row_may_have_its_own_task(client_of, offline, is_binary):
    tasks = [offline.tasks[i % 3] for i in range(len(ROWS))]
    result = client_of.infer(
        "shared.transform", [task_input(tasks, is_binary=is_binary), rows_input(ROWS)]
    )
    found = result.as_numpy("transform")
    for i, task in enumerate(offline.tasks):
        expected = offline.transform(ROWS[i::3], task=task)
        np.testing.assert_allclose(found[i::3], expected, rtol=1e-12)


@pytest.mark.parametrize("accepted", ["gzip", "deflate", None])
@pytest.mark.parametrize("sent", ["gzip", "deflate", None])
def test_every_compression(client_of, offline, sent, accepted):
    result = client_of.infer(
        "shared",
        [rows_input(ROWS)],
        parameters={"task": "north"},
        request_compression_algorithm=sent,
        response_compression_algorithm=accepted,
    )
    expected = offline.transform(ROWS, task="north")
    np.testing.assert_array_equal(result.as_numpy("transform"), expected)


def test_concurrent_calls_get_their_own_results(client_of, offline):
    parts = np.array_split(ROWS, 30)
    waiting = [
        client_of.async_infer("shared", [rows_input(part)], parameters={"task": "north"})
        for part in parts
    ]
    for part, one in zip(parts, waiting, strict=True):
        expected = offline.transform(part, task="north")
        np.testing.assert_array_equal(one.get_result().as_numpy("transform"), expected)


def test_the_asyncio_client(address, offline):
    async def call():
        async with triton_aio.InferenceServerClient(**address) as client:
            assert await client.is_model_ready("shared")
            assert (await client.get_model_metadata("shared"))["name"] == "shared"
            calls = [
                client.infer(
                    "shared",
                    [rows_input(part)],
                    parameters={"task": "north"},
                    response_compression_algorithm=coding,
                )
                for part in np.array_split(ROWS, 5)
                for coding in (None, "gzip")
            ]
            return await asyncio.gather(*calls)

    found = [result.as_numpy("transform") for result in asyncio.run(call())]
    expected = [offline.transform(part, task="north") for part in np.array_split(ROWS, 5)]
    for i, result in enumerate(found):
        np.testing.assert_array_equal(result, expected[i // 2])


@pytest.mark.parametrize("is_binary", [True, False])
def test_labels_are_returned_as_bytes(client_of, client, dataset, is_binary):
    remote = client.train(dataset, "mtda", model="v2-of-triton", d=2).wait()
    result = client_of.infer(
        remote.name,
        [rows_input(ROWS)],
        outputs=[triton.InferRequestedOutput("predict", binary_data=is_binary)],
        parameters={"task": "north"},
    )
    labels = [x.decode() if isinstance(x, bytes) else x for x in result.as_numpy("predict")]
    assert labels == remote.predict(ROWS, task="north").tolist()


def test_the_client_raises_with_the_error_message(client_of):
    with pytest.raises(InferenceServerException, match="'none'") as caught:
        client_of.infer("shared", [rows_input(ROWS)], parameters={"task": "none"})
    assert caught.value.status() == "400"
    with pytest.raises(InferenceServerException, match="no model 'none'") as caught:
        client_of.infer("none", [rows_input(ROWS)], parameters={"task": "north"})
    assert caught.value.status() == "404"
    with pytest.raises(InferenceServerException, match="no output 'more'"):
        client_of.infer(
            "shared",
            [rows_input(ROWS)],
            outputs=[triton.InferRequestedOutput("more")],
            parameters={"task": "north"},
        )
    with pytest.raises(InferenceServerException, match="no model 'none'"):
        client_of.get_model_metadata("none")


def test_a_model_is_loaded_and_unloaded(client_of, client, http):
    """The metric of the model cache shows loading and unloading; calls work in any case."""
    dataset = client.upload({"north": ROWS + 7}, name="of a model with bytes of its own")
    client.train(dataset, "pca", model="loaded", k=3).wait().set_alias("production")

    def cached():
        numbers = http.get("/metrics").text
        return float(re.search(r"^sibling_model_cache_bytes (\S+)$", numbers, re.MULTILINE)[1])

    size = client.model("loaded").info["artifact_bytes"]
    for name in ("loaded", "loaded@production", "loaded.transform"):
        before = cached()
        client_of.load_model(name)
        assert cached() == before + size
        client_of.load_model(name)
        assert cached() == before + size
        client_of.unload_model(name)
        assert cached() == before
        client_of.unload_model(name, unload_dependents=True)
    result = client_of.infer("loaded", [rows_input(ROWS[:2]), task_input(["north"] * 2)])
    expected = client.model("loaded").transform(ROWS[:2], task="north")
    np.testing.assert_array_equal(result.as_numpy("transform"), expected)


def test_loading_an_unknown_model_is_an_error(client_of, http, model):
    for act in (client_of.load_model, client_of.unload_model):
        for name in ("none", f"{model.name}.nothing", f"{model.name}@none"):
            with pytest.raises(InferenceServerException, match="there is no model"):
                act(name)
    with pytest.raises(InferenceServerException, match="parameter 'config' is not supported"):
        client_of.load_model(model.name, config="{}")
    path = f"/v2/repository/models/{model.name}/load"
    for body in ("[]", '{"parameters": 1}', '{"parameters": {"a": 1}}'):
        assert http.post(path, content=body).json()["code"] == "invalid-request"
    assert http.post(path, content="{").json()["code"] == "malformed-json"
