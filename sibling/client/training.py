"""Jobs of the service: training, batch inference, and jobs that were submitted before."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS, NewTasks
from algorithms.interface.ties import DEFAULT_TIES, Ties
from sibling.client.datasets import Dataset, dataset_id_of
from sibling.client.http import path
from sibling.client.job import InferenceJob, TrainingJob
from sibling.client.model import RemoteModel
from sibling.client.modes import Collection, Mode, Remote, remote_method


class JobOptions(TypedDict, total=False):
    """Options of a training job; see :meth:`JobMethods.train`."""

    model: str | None
    seed: int
    limits: Mapping[str, Any] | None
    search: Mapping[str, Any] | None
    compare: bool | Mapping[str, Any]
    evaluate: bool | Mapping[str, Any]
    preparation: Mapping[str, Any] | None
    calibration: bool | Mapping[str, Any] | None
    class_weight: str | Mapping[Any, float] | None
    new_tasks: NewTasks
    ties: Ties


class JobMethods(Remote[Mode]):
    """Methods of the client for jobs."""

    @remote_method
    async def train(
        self,
        /,
        dataset: Dataset | str,
        algorithm: str,
        *,
        model: str | None = None,
        seed: int = 0,
        limits: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        compare: bool | Mapping[str, Any] = False,
        evaluate: bool | Mapping[str, Any] = False,
        preparation: Mapping[str, Any] | None = None,
        calibration: bool | Mapping[str, Any] | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        new_tasks: NewTasks = DEFAULT_NEW_TASKS,
        ties: Ties = DEFAULT_TIES,
        **params: Any,
    ) -> TrainingJob[Mode]:
        """Submit a job that trains a model, and return the job.

        Parameters
        ----------
        model
            Name of the model. Default: the name of the algorithm.
        limits
            ``priority``, ``timeout_s``, ``memory_mb``, ``max_attempts``, ``threads``.
        search
            Parameter values to try by cross-validation: ``{"space": {"k": [1, 2, 3]}, "n_folds":
            5}``, or
            ``{"space": {"C": {"low": 0.01, "high": 100.0, "scale": "log"}}, "method": "random"}``.
        compare
            Compare the algorithm with methods that train each task separately and with methods that
            train all tasks together. The report of the model says whether learning together
            helps, and which method is best. Options: ``{"splits": {...}, "metric": ...,
            "min_effect": 0.01}``.
        evaluate
            Evaluate the algorithm on held-out rows. Options: ``{"splits": {...}}``.
        preparation
            How raw rows are prepared, such as ``{"scale": "robust", "impute": "mean"}``. Default:
            a dataset with missing values, text or dates is prepared, and numbers are not.
        calibration
            Fit the algorithm also without each of some folds of the rows, and calibrate its
            outputs on the held-out rows, for ``predict_proba``, ``predict_set`` and
            ``predict_interval``. Options: ``{"n_folds": 5}``.
        class_weight
            Weights of the classes in the fit: ``"balanced"``, or by class, ``{"ill": 5.0}``.
        new_tasks
            What calls of the model do about tasks that it was not trained on: ``"refuse"`` them, or
            answer by what the tasks have in ``"common"``.
        ties
            Which rows of equal values are held out together: ``"auto"``, those that are the same
            sample; all, ``"values"``; or ``"none"``.
        params
            Parameters of the algorithm.
        """
        spec = _specify(
            dataset,
            algorithm,
            params,
            model=model,
            seed=seed,
            limits=limits,
            search=search,
            compare=compare,
            evaluate=evaluate,
            preparation=preparation,
            calibration=calibration,
            class_weight=class_weight,
            new_tasks=new_tasks,
            ties=ties,
        )
        return await self._queue(spec)

    @remote_method
    async def adapt(
        self, model: RemoteModel[Mode], dataset: Dataset | str, *, name: str | None = None
    ) -> TrainingJob[Mode]:
        """Submit a job that adds the tasks of a dataset to a model, and return the job.

        Shared parameters of the model stay fixed. The result is a new version of the model,
        or a new model called ``name``. Concurrent jobs each extend this version only, so the result
        of one job does not include the tasks of another.
        """
        return await self._queue(
            {
                "dataset_id": dataset_id_of(dataset),
                "algorithm": model.info["algorithm"],
                "model": name or model.name,
                "adapt": {"model": model.name, "version": model.version},
            }
        )

    @remote_method
    async def submit(
        self,
        /,
        dataset: Dataset | str,
        algorithm: str,
        params: Mapping[str, Any],
        **options: Unpack[JobOptions],
    ) -> TrainingJob[Mode]:
        """Submit a training job. Unlike with :meth:`train`, parameters may have any name.

        Parameters
        ----------
        options
            ``model``, ``seed``, ``limits``, ``search``, ``compare``, ``evaluate``,
            ``preparation``, ``calibration``, ``class_weight``, ``new_tasks`` and ``ties``, as
            for :meth:`train`.
        """
        return await self._queue(_specify(dataset, algorithm, params, **options))

    @remote_method
    async def validate(
        self,
        /,
        dataset: Dataset | str,
        algorithm: str,
        params: Mapping[str, Any],
        **options: Unpack[JobOptions],
    ) -> dict[str, Any]:
        """Return the parameters and warnings of a training job without submitting it.

        Parameters
        ----------
        options
            As for :meth:`submit`.

        Raises
        ------
        ServiceError
            The job is invalid.
        """
        spec = _specify(dataset, algorithm, params, **options)
        validated: dict[str, Any] = await self._http.create("/v1/jobs", spec, validate_only=True)
        return validated

    @remote_method
    async def infer(
        self,
        model: RemoteModel[Mode] | str,
        method: str,
        dataset: Dataset | str,
        *,
        tasks: Mapping[str, str] | None = None,
        level: float | None = None,
        new_tasks: NewTasks | None = None,
        makes_dataset: bool = True,
        name: str | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> InferenceJob[Mode]:
        """Submit a job that applies a method of a model to a dataset, and return the job.

        Parameters
        ----------
        model
            A version, NAME for the latest version, or NAME@ALIAS.
        tasks
            ``{task of the dataset: task of the model}``. Default: all tasks of the dataset, with
            tasks of the model of the same name.
        level
            Level of ``predict_interval`` and ``predict_set``. Default: 0.9.
        new_tasks
            ``"common"``: compute tasks that the model was not trained on by what its tasks have in
            common. ``"refuse"``: they are an error. Default: as the model was trained.
        makes_dataset
            Whether to store numeric outputs as a dataset too.
        name
            Name of the dataset of outputs.
        limits
            Limits of the job, as for :meth:`train`.
        """
        spec = {
            "model": model if isinstance(model, str) else model.name,
            "version": None if isinstance(model, str) else model.version,
            "method": method,
            "level": level,
            "new_tasks": new_tasks,
            "dataset_id": dataset_id_of(dataset),
            "tasks": None if tasks is None else dict(tasks),
            "makes_dataset": makes_dataset,
            "dataset_name": name,
            **(limits or {}),
        }
        return InferenceJob(self._http, await self._http.create("/v1/jobs:infer", spec))

    @remote_method
    async def retrain(
        self,
        model: RemoteModel[Mode] | str,
        dataset: Dataset | str | None = None,
        *,
        name: str | None = None,
        seed: int | None = None,
    ) -> TrainingJob[Mode]:
        """Repeat the job that trained a model, with the same specification, and return the job.

        Parameters
        ----------
        model
            The model, or a name or ``NAME@ALIAS``.
        dataset
            Another dataset, such as a later one with more rows. Default: the dataset of the model.
        name
            Name of another model. Default: the result is the next version of the model.
        seed
            Another random seed. Default: the seed of the model.
        """
        info = (
            await self._http.get(path("v1", "models", model))
            if isinstance(model, str)
            else (model.info)
        )
        fields = {
            "dataset_id": None if dataset is None else dataset_id_of(dataset),
            "model": name,
            "seed": seed,
        }
        changes = {key: value for key, value in fields.items() if value is not None}
        address = path("v1", "jobs", info["lineage"]["job_id"]) + ":repeat"
        return TrainingJob(self._http, await self._http.create(address, changes))

    @remote_method
    async def job(self, job_id: str) -> TrainingJob[Mode]:
        """Return a training job."""
        return await self._job(job_id)

    @remote_method
    async def inference(self, job_id: str) -> InferenceJob[Mode]:
        """Return a batch inference job."""
        return InferenceJob(self._http, await self._http.get(path("v1", "jobs", job_id)))

    @remote_method
    async def delete_job(self, job_id: str) -> None:
        """Delete a job that has ended, with its child jobs, events and outputs.

        Raises
        ------
        ServiceError
            The job has not ended (``wrong-state``), or it is a child job or has made a model
            version that still exists (``in-use``).
        """
        await self._http.send("DELETE", path("v1", "jobs", job_id))

    @property
    def jobs(self) -> Collection[Mode, TrainingJob[Mode]]:
        """The jobs, newest first; indexed by id, filtered as in ``client.jobs(state="running")``.

        Filters are ``state`` and ``parent_id``, which returns the child jobs of a job instead.
        """
        return Collection(self._http, "/v1/jobs", self._job)

    async def _job(self, job_id: str) -> TrainingJob[Mode]:
        return TrainingJob(self._http, await self._http.get(path("v1", "jobs", job_id)))

    async def _queue(self, spec: Mapping[str, Any]) -> TrainingJob[Mode]:
        return TrainingJob(self._http, await self._http.create("/v1/jobs", spec))


def _specify(
    dataset: Dataset | str,
    algorithm: str,
    params: Mapping[str, Any],
    **options: Unpack[JobOptions],
) -> dict[str, Any]:
    """Return the specification of a training job; other options than the defaults are in it."""
    spec: dict[str, Any] = {
        "dataset_id": dataset_id_of(dataset),
        "algorithm": algorithm,
        "model": options.get("model") or algorithm,
        "seed": options.get("seed", 0),
        "params": dict(params),
        "compare": _plain(options.get("compare", False)),
        "evaluate": _plain(options.get("evaluate", False)),
        **(options.get("limits") or {}),
    }
    given = {name: options.get(name) for name in ("search", "preparation", "calibration")}
    spec |= {name: _plain(value) for name, value in given.items() if value is not None}
    defaults = {"new_tasks": DEFAULT_NEW_TASKS, "ties": DEFAULT_TIES}
    given = {name: options.get(name, default) for name, default in defaults.items()}
    spec |= {name: value for name, value in given.items() if value != defaults[name]}
    class_weight = options.get("class_weight")
    if isinstance(class_weight, str):
        spec["class_weight"] = class_weight
    elif class_weight is not None:
        spec["class_weight"] = {str(label): float(w) for label, w in class_weight.items()}
    return spec


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
