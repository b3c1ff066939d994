"""Unknown values of categories are answered, and the response names them."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sibling import Ridge, UnknownCategoriesWarning
from tests.written import parquet_of

HEADER = "sibling-unknown-categories"


@pytest.fixture(scope="module")
def shops(client, tmp_path_factory):
    rng = np.random.default_rng(0)
    lines = ["shop,colour,size,sales"]
    for shop in ("north", "south"):
        for row in range(20):
            colour = ("red", "blue")[row % 2]
            size = rng.normal()
            lines.append(f"{shop},{colour},{size:.3f},{size + (colour == 'red'):.3f}")
    path = tmp_path_factory.mktemp("shops") / "shops.csv"
    path.write_text("\n".join(lines))
    data = client.upload(path, task_column="shop", target_column="sales")
    return client.train(data, "ridge", model="colours").wait()


def parquet(table) -> bytes:
    return parquet_of(pa.table(table))


ROWS = {"colour": ["red", "grün", None, "grün"], "size": [1.0, 2.0, 0.0, 0.5]}
RECORDS = [dict(zip(ROWS, values, strict=True)) for values in zip(*ROWS.values(), strict=True)]
CSV = "colour,size\nred,1\ngrün,2\n,0\ngrün,0.5\n".encode()
BODIES = [
    pytest.param("application/json", json.dumps({"inputs": RECORDS}).encode(), id="json"),
    pytest.param("text/csv", CSV, id="csv"),
    pytest.param("application/vnd.apache.parquet", parquet(ROWS), id="parquet"),
    pytest.param(
        "application/vnd.apache.parquet",
        parquet({name: values * 50 for name, values in ROWS.items()}),
        id="many rows",
    ),
]


@pytest.mark.parametrize(("media_type", "body"), BODIES)
def test_the_response_names_unknown_values_by_column(http, shops, media_type, body) -> None:
    path = f"/v1/models/{shops.name}/predict?task=north"
    answer = http.post(path, content=body, headers={"content-type": media_type})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["outputs"]) in (4, 200)
    assert json.loads(answer.headers[HEADER]) == {"colour": ["grün"]}


def test_known_and_missing_values_are_not_named(http, shops) -> None:
    rows = [{"colour": "red", "size": 1.0}, {"colour": None, "size": 2.0}]
    for path in (f"/v1/models/{shops.name}/predict?task=north",) * 2:  # also from the cache
        answer = http.post(path, json={"inputs": rows})
        assert answer.status_code == 200
        assert HEADER not in answer.headers


def test_the_protocol_names_them_as_well(http, shops) -> None:
    inputs = [
        {"name": "colour", "shape": [2], "datatype": "BYTES", "data": ["red", "grey"]},
        {"name": "size", "shape": [2], "datatype": "FP64", "data": [1.0, 2.0]},
    ]
    body = {"inputs": inputs, "parameters": {"task": "north"}}
    answer = http.post(f"/v2/models/{shops.name}/infer", json=body)
    assert answer.status_code == 200, answer.text
    assert json.loads(answer.headers[HEADER]) == {"colour": ["grey"]}


def test_a_header_has_room_for_long_and_many_values(http, shops) -> None:
    rows = [{"colour": f"{i}" * 200, "size": 0.0} for i in range(10, 40)]
    answer = http.post(f"/v1/models/{shops.name}/predict?task=north", json={"inputs": rows})
    assert answer.status_code == 200
    assert len(answer.headers[HEADER]) <= 4096
    assert len(json.loads(answer.headers[HEADER])["colour"]) == 10


def test_client_and_estimators_warn_of_them(shops) -> None:
    rows = pd.DataFrame({"colour": ["red", "grün"], "size": [1.0, 2.0]})
    with pytest.warns(UnknownCategoriesWarning, match="colour: 'grün'") as of_client:
        remote = shops.predict(rows, task="north")
    assert len(of_client) == 1

    targets = pd.Series([1.0, 2.0, 3.0, 4.0])
    frame = pd.DataFrame({"colour": ["red", "blue"] * 2, "size": [0.0, 1.0, 1.0, 3.0]})
    model = Ridge(gamma=1.0, selection="given").fit(frame, targets, tasks=["north"] * 4)
    with pytest.warns(UnknownCategoriesWarning, match="colour: 'grün'"):
        local = model.predict(rows, tasks="north")
    assert len(remote) == len(local) == 2
