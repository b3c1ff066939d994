"""Relations between the tasks of a model, as numbers and as a diagram."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from algorithms.interface.relations import relations_of
from service.models.relations_svg import draw
from sibling import ServiceError

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def related(client):
    """A model of three tasks, two with the same function, with unusual names."""
    rng = np.random.default_rng(5)
    X = {name: rng.standard_normal((30, 4)) for name in ("<b>&", "south", "south too")}
    w = rng.standard_normal((2, 4))
    y = {name: X[name] @ w[int(name != "<b>&")] for name in X}
    dataset = client.upload(X, y, name="related")
    return client.train(dataset, "fmtl", model="related", kernel="linear").wait()


def test_related_tasks_are_listed_side_by_side(related):
    relations = related.relations()
    assert set(relations["names"]) == {"<b>&", "south", "south too"}
    assert relations["names"].index("<b>&") != 1
    assert "'south' and 'south too' are most strongly related" in relations["sentence"]
    strength = np.array(relations["strength"])
    np.testing.assert_array_equal(strength, strength.T)
    np.testing.assert_allclose(np.diag(strength), 1.0)
    at = [relations["names"].index(name) for name in ("south", "south too")]
    assert strength[*at] == np.abs(strength - np.eye(3)).max()


def test_the_diagram_has_a_cell_for_each_pair_and_every_name(related, http, tmp_path):
    root = ET.fromstring(related.draw_relations(tmp_path / "related.svg").read_bytes())
    cells = "".join(path.attrib["d"] for path in root.iter(f"{SVG}path"))
    assert cells.count("M") == 9
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"<b>&", "south", "south too"} <= set(texts)
    response = http.get("/v1/models/related/versions/1/relations.svg")
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    again = {"If-None-Match": response.headers["etag"]}
    assert http.get("/v1/models/related/versions/1/relations.svg", headers=again).status_code == 304
    assert http.get("/v1/models/related/versions/1/relations", headers=again).status_code == 304


def test_a_model_without_relations_is_404(client, dataset):
    model = client.train(dataset, "common-pca", model="unrelated", k=1).wait()
    for ask in (model.relations, lambda: model.draw_relations("never-written.svg")):
        with pytest.raises(ServiceError, match=r"no-relations: .* has no task relations"):
            ask()


def test_many_outputs_are_drawn_as_means_of_neighbours():
    G = np.kron(np.eye(2), np.ones((700, 700)))
    drawn = draw(relations_of(G, [f"task {i}" for i in range(1400)]))
    root = ET.fromstring(drawn)
    paths = {path.attrib["fill"]: path.attrib["d"].count("M") for path in root.iter(f"{SVG}path")}
    assert sum(paths.values()) == 600 * 600
    assert paths == {"#b2182b": 180_000, "#f7f7f7": 180_000}
    assert not [text for text in root.iter(f"{SVG}text") if "task" in (text.text or "")[:4]]


def test_names_with_characters_invalid_in_xml_are_drawn():
    names = ["a\ufffe", "b\x01", "c\ud800"]
    root = ET.fromstring(draw(relations_of(np.eye(3), names)))
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"a\ufffd", "b\ufffd", "c\ufffd"} <= texts
