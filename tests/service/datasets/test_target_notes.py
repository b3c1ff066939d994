"""Targets of text have the notes that columns have: units, codes and dates."""

import json

import pytest

JSON = "application/json"


def read(reader, targets, *, as_json, **options):
    records = [{"task": "ab"[i % 2], "x": i / 2, "y": y} for i, y in enumerate(targets)]
    if as_json:
        return reader.read(json.dumps(records).encode(), JSON, target_column="y", **options)
    rows = [f"{r['task']};{r['x']};{r['y']}" for r in records]
    body = "\n".join(["task;x;y", *rows]).encode()
    return reader.read(body, target_column="y", **options)


def notes_of(result):
    return [note for note in result["manifest"]["warnings"] if "'y'" in note]


@pytest.mark.parametrize("as_json", [False, True], ids=["CSV", "JSON"])
def test_a_unit_of_targets_is_left_out_with_a_note(reader, as_json):
    result = read(reader, ["12 %", "13.5 %", "7 %", "9 %"], as_json=as_json)
    assert reader.tasks(result)["a"].y.tolist() == [12, 7]
    (note,) = notes_of(result)
    assert "unit '%'" in note


@pytest.mark.parametrize("as_json", [False, True], ids=["CSV", "JSON"])
def test_targets_that_are_codes_are_labels_with_a_note(reader, as_json):
    codes = ["00123", "00456"] * 4
    result = read(reader, [codes[i // 2] for i in range(8)], as_json=as_json)
    assert reader.tasks(result)["a"].y.tolist() == ["00123", "00456"] * 2
    (note,) = notes_of(result)
    assert "'00123'" in note
    assert "target_kind=numbers" in note
    numbers = read(reader, codes, as_json=as_json, target_kind="numbers")
    assert reader.tasks(numbers)["a"].y.tolist() == [123] * 4


WAYS = {"CSV": (str, False), "text of JSON": (str, True), "numbers of JSON": (int, True)}


@pytest.mark.parametrize("way", WAYS)
def test_targets_that_can_be_dates_are_numbers_with_a_note(reader, way):
    write, as_json = WAYS[way]
    targets = [write(20240101 + i) for i in range(8)]
    result = read(reader, targets, as_json=as_json)
    assert reader.tasks(result)["a"].y.tolist() == [20240101 + i for i in range(0, 8, 2)]
    assert any("20240131" in note for note in notes_of(result))
    assert not any("20240131" in n for n in notes_of(read(reader, range(8), as_json=as_json)))


@pytest.mark.parametrize("as_json", [False, True], ids=["CSV", "JSON"])
def test_targets_of_text_that_hardly_repeat_have_a_note(reader, as_json):
    result = read(reader, [f"about {i} or so" for i in range(30)], as_json=as_json)
    assert len(set(reader.tasks(result)["a"].y)) == 15
    (note,) = notes_of(result)
    assert "30 different texts in 30 rows" in note
    assert notes_of(read(reader, ["few", "many"] * 15, as_json=as_json)) == []
