"""Batch inference under kills: its outputs are stored once, or not at all."""

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from service.storage.tables import BlobRow, DatasetRow, JobRow, VersionRow
from sibling import Client, JobFailed, ServiceError
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # kills processes

#: A slow model, so that the job lasts for seconds.
SLOW = "gp-lvm"
N_ROWS = 40_000
END_S = 240  # only ends a hang


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(N_ROWS, 6))


class Slow:
    """A service with one slot, and a slow batch inference."""

    def __init__(self, service, rows):
        self.service = service
        with Client(service.url) as client:
            few = {name: rows[i : i + 30] for i, name in ((0, "a"), (30, "b"))}
            self.model = client.train(client.upload(few, name="few"), SLOW, model="slow").wait()
            self.dataset = client.upload({"a": rows, "b": rows[:10]}, name="many")

    def submit(self, client, **limits):
        return client.infer("slow", "transform", self.dataset, limits=limits)

    def begin(self, client, **limits):
        """Return a job that has computed some of its rows."""
        job = self.submit(client, **limits)
        wait_for(lambda: (job.refresh().info["progress"] or {}).get("fraction", 0) > 0.05)
        return job

    def kept(self, service):
        """Return the number of outputs, of datasets made of them, and of blobs."""
        with service.open_database() as database, database.read() as session:
            outputs = session.scalars(
                sa.select(JobRow.id).where(JobRow.output_blob_id.is_not(None))
            ).all()
            made = session.scalars(sa.select(DatasetRow.id).where(DatasetRow.origin.is_not(None)))
            partial = sa.select(sa.func.count()).where(BlobRow.sha256.is_(None))
            blobs = session.scalar(sa.select(sa.func.count()).select_from(BlobRow))
            assert session.scalar(partial) == 0
            return len(outputs), len(made.all()), blobs


@pytest.fixture
def slow(start_service, rows):
    return Slow(start_service(SIBLING_WORKER_SLOTS=1), rows)


@pytest.fixture(scope="module")
def shared(launch_service, rows):
    """A service that several tests use; each deletes what it creates."""
    with launch_service(SIBLING_WORKER_SLOTS=1) as running:
        yield Slow(running, rows)


def check_outputs(client, outputs, model, rows, folder):
    """Check that the outputs are complete and equal those of online inference."""
    table = pq.read_table(outputs.download(folder / "outputs.parquet"))
    assert table.num_rows == N_ROWS + 10
    found = np.array(table["outputs"].slice(N_ROWS - 500, 510).to_pylist())
    last, few = rows[N_ROWS - 1000 :], rows[:10]
    expected = (
        client.model(model.name).transform(last, task="a")[-500:],
        client.model(model.name).transform(few, task="b"),
    )
    np.testing.assert_array_equal(found, np.concatenate(expected))
    made = client.dataset(outputs.dataset_id)
    assert made.info["n_samples"] == N_ROWS + 10


def test_after_a_kill_of_everything_the_outputs_are_stored_once(
    slow, start_service, rows, tmp_path
):
    before = slow.kept(slow.service)
    with Client(slow.service.url) as client:
        job = slow.begin(client)
    family = psutil.Process(slow.service.process.pid).children(recursive=True)
    slow.service.process.kill()
    slow.service.process.wait()
    assert not psutil.wait_procs(family, timeout=END_S)[1]
    assert slow.kept(slow.service) == before == (0, 0, before[2])
    second = start_service(data_dir=slow.service.data_dir, SIBLING_WORKER_SLOTS=1)
    with Client(second.url) as client:
        handle = client.inference(job.id)
        outputs = handle.wait()
        assert [a["outcome"] for a in handle.info["attempts"]] == ["lost", "succeeded"]
        assert slow.kept(second) == (1, 1, before[2] + 2)
        check_outputs(client, outputs, slow.model, rows, tmp_path)
        wait_for(lambda: not files(second))


@pytest.mark.parametrize("victim", ["child", "worker"])
def test_a_killed_process_is_replaced_and_the_outputs_are_stored_once(
    shared, rows, tmp_path, victim
):
    before = shared.kept(shared.service)
    with Client(shared.service.url) as client:
        job = shared.begin(client)
        child = child_of(shared.service)
        (child if victim == "child" else child.parent()).kill()
        outputs = job.wait()
        assert job.info["attempt"] == 2
        assert shared.kept(shared.service) == (1, 1, before[2] + 2)
        check_outputs(client, outputs, shared.model, rows, tmp_path)
        client.delete_dataset(outputs.dataset_id)
        outputs.delete()
    assert shared.kept(shared.service) == before
    wait_for(lambda: not files(shared.service))


@pytest.mark.parametrize("how", ["cancelled", "timed_out", "failed"])
def test_a_job_that_does_not_succeed_leaves_no_outputs(shared, stopwatch, how):
    before = shared.kept(shared.service)
    limits = {"cancelled": {}, "timed_out": {"timeout_s": 1}, "failed": {"max_attempts": 1}}[how]
    with Client(shared.service.url) as client:
        # one that runs for a second may end before it has computed any
        job = (shared.submit if how == "timed_out" else shared.begin)(client, **limits)
        if how == "cancelled":
            elapsed_s = stopwatch()
            job.cancel()
        elif how == "failed":
            child_of(shared.service).kill()
        with pytest.raises(JobFailed):
            job.wait()
        if how == "cancelled":
            assert elapsed_s() < 5
        assert job.state == how
        assert (job.info["output"], job.info["result"]) == (None, None)
    assert shared.kept(shared.service) == before
    wait_for(lambda: not files(shared.service))


def test_a_stopped_service_requeues_it_uncounted(slow, start_service):
    with Client(slow.service.url) as client:
        job = slow.begin(client, max_attempts=1)
    slow.service.process.terminate()
    slow.service.process.wait(120)
    second = start_service(data_dir=slow.service.data_dir, SIBLING_WORKER_SLOTS=1)
    with Client(second.url) as client:
        handle = client.inference(job.id)
        handle.wait()
        assert [a["outcome"] for a in handle.info["attempts"]][-1] == "succeeded"
        assert slow.kept(second)[:2] == (1, 1)


@pytest.mark.sql
def test_a_model_cannot_be_deleted_until_the_job_has_ended(shared):
    with Client(shared.service.url) as client:
        first = shared.begin(client)
        doomed = client.train(shared.dataset, "pca", model="doomed", limits={"priority": 9}, k=1)
        first.cancel()
        model = doomed.wait()
        first = shared.begin(client)
        waiting = client.infer(model, "transform", shared.dataset)
        with pytest.raises(ServiceError, match=f"in-use.*job {waiting.id}"):
            model.delete()
        # as if the deletion came at the same moment as the submission
        with shared.service.open_database() as database, database.write() as session:
            session.execute(sa.delete(VersionRow).where(VersionRow.id == model.info["id"]))
        first.cancel()
        with pytest.raises(JobFailed, match="has been deleted"):
            waiting.wait()
        assert waiting.info["error"]["code"] == "base-model-deleted"


@pytest.mark.sql
def test_the_dataset_cannot_be_deleted_until_the_job_has_ended(shared):
    with Client(shared.service.url) as client:
        job = shared.begin(client)
        with pytest.raises(ServiceError, match=f"in-use.*{job.id}"):
            client.delete_dataset(shared.dataset.id)
        job.cancel()
        with pytest.raises(JobFailed):
            job.wait()


def files(service):
    work = service.data_dir / "work"
    return [path for path in work.rglob("*") if path.is_file()]


def child_of(service):
    """Return the child process of a service with one slot."""
    for process in psutil.Process(service.process.pid).children(recursive=True):
        if "service.jobs.worker.child" in process.cmdline():
            return process
    raise AssertionError("there is no child")
