"""The peers of ``peers.py``, for environments that have one of them but not this project.

python peer_methods.py METHOD FOLDER

Each ``.npz`` file of the folder has training rows ``X`` (n, d) with their ``task`` (n,) and targets
``y`` (n,): numbers, or positions of classes; and rows ``X_new``, ``task_new`` to predict. The
answers are written to ``METHOD/`` in the folder: predictions, or the probability of each class
from methods that have some, and seconds of processor time.
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

warnings.simplefilter("ignore")

Array = NDArray[Any]
#: Seconds that FLAML may search.
FLAML_S = 10


class Case:
    """Rows of all tasks, to learn from and to predict."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        self.X, self.task, self.y = arrays["X"], arrays["task"], arrays["y"]
        self.X_new, self.task_new = arrays["X_new"], arrays["task_new"]
        self.is_classes = self.y.dtype.kind == "i"
        self.n_tasks = int(max(self.task.max(), self.task_new.max())) + 1

    def with_task(self, *, is_column: bool) -> tuple[Array, Array]:
        """Return rows with the task as a column, or as one column for each task."""
        parts = [(self.X, self.task), (self.X_new, self.task_new)]
        one_hot = np.eye(self.n_tasks)
        first, second = (
            np.column_stack([X, task if is_column else one_hot[task]]) for X, task in parts
        )
        return first, second

    def standardised(self) -> tuple[Array, Array]:
        """Return the rows in units of the standard deviations of the training rows."""
        mean, scale = self.X.mean(axis=0), self.X.std(axis=0)
        scale[scale == 0] = 1.0
        return (self.X - mean) / scale, (self.X_new - mean) / scale

    def answer(self, model: Any, X_new: Any) -> Array:
        """Return the predictions of a fitted model, or the probability of each class."""
        if not self.is_classes:
            return np.asarray(model.predict(X_new))
        p = np.zeros((len(X_new), int(self.y.max()) + 1))
        p[:, np.unique(self.y)] = model.predict_proba(X_new)
        return p


def ridge(case: Case) -> Array:
    """Return predictions of scikit-learn's ridge, or logistic, regression with dummies of tasks."""
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    case.X, case.X_new = case.standardised()
    X, X_new = case.with_task(is_column=False)
    model = LogisticRegressionCV(max_iter=1000) if case.is_classes else RidgeCV(np.logspace(-3, 3))
    return case.answer(model.fit(X, case.y), X_new)


def forest(case: Case) -> Array:
    """Return predictions of scikit-learn's random forest with dummies of tasks."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    X, X_new = case.with_task(is_column=False)
    kind = RandomForestClassifier if case.is_classes else RandomForestRegressor
    model = kind(300, min_samples_leaf=2, random_state=0)
    return case.answer(model.fit(X, case.y), X_new)


def lightgbm(case: Case) -> Array:
    """Return predictions of LightGBM with the task as a category, and leaves of 5 rows."""
    import lightgbm

    X, X_new = case.with_task(is_column=True)
    kind = lightgbm.LGBMClassifier if case.is_classes else lightgbm.LGBMRegressor
    model = kind(min_child_samples=5, num_leaves=8, verbose=-1, n_jobs=1, random_state=0)
    model.fit(X, case.y, categorical_feature=[X.shape[1] - 1])
    return case.answer(model, X_new)


def catboost(case: Case) -> Array:
    """Return predictions of CatBoost with the task as a category."""
    from catboost import CatBoostClassifier, CatBoostRegressor, Pool

    kind = CatBoostClassifier if case.is_classes else CatBoostRegressor
    model = kind(verbose=0, thread_count=1, random_seed=0, allow_writing_files=False)

    def rows(X: Array, task: Array) -> list[Any]:
        return [[str(t), *row] for t, row in zip(task.tolist(), X.tolist(), strict=True)]

    model.fit(Pool(rows(case.X, case.task), case.y, cat_features=[0]))
    return case.answer(model, rows(case.X_new, case.task_new))


def gpboost(case: Case) -> Array:
    """Return predictions of GPBoost with a random intercept of each task.

    Targets are standardised: its trees have no splits where the variance is large.
    """
    import gpboost

    likelihood = "bernoulli_logit" if case.is_classes else "gaussian"
    if case.is_classes and len(np.unique(case.y)) != 2:
        raise NotImplementedError("GPBoost takes two classes")
    effects = gpboost.GPModel(group_data=case.task, likelihood=likelihood)
    mean, scale = (0.0, 1.0) if case.is_classes else (case.y.mean(), case.y.std() or 1.0)
    data = gpboost.Dataset(case.X, (case.y - mean) / scale)
    params = {"learning_rate": 0.05, "max_depth": 3, "min_data_in_leaf": 5, "verbose": 0}
    booster = gpboost.train(params=params, train_set=data, gp_model=effects, num_boost_round=100)
    found = booster.predict(data=case.X_new, group_data_pred=case.task_new, pred_latent=False)
    response = np.asarray(found["response_mean"])
    return np.column_stack([1 - response, response]) if case.is_classes else mean + scale * response


def flaml(case: Case) -> Array:
    """Return predictions of what FLAML finds in ten seconds, with the task as a category."""
    import pandas as pd
    from flaml import AutoML

    X, X_new = (pd.DataFrame(rows) for rows in case.with_task(is_column=True))
    last = X.columns[-1]
    X, X_new = (frame.astype({last: "int"}).astype({last: "category"}) for frame in (X, X_new))
    X.columns, X_new.columns = map(str, X.columns), map(str, X_new.columns)
    task = "classification" if case.is_classes else "regression"
    model = AutoML()
    model.fit(X, case.y, task=task, time_budget=FLAML_S, n_jobs=1, verbose=0, seed=0)
    return case.answer(model, X_new)


def gpy(case: Case) -> Array:
    """Return predictions of GPy: a line and a curve common to the tasks, and one of each task.

    Classes are −1 and 1 for one against the rest.
    """
    import GPy

    X, X_new = case.standardised()
    d, T = X.shape[1], case.n_tasks
    rows, rows_new = np.column_stack([X, case.task]), np.column_stack([X_new, case.task_new])
    classes = np.unique(case.y) if case.is_classes else None
    targets = [case.y] if classes is None else [2.0 * (case.y == c) - 1 for c in classes]
    if classes is not None and len(classes) == 2:
        targets = targets[1:]

    def smooth(name: str) -> Any:
        columns = list(range(d))
        line = GPy.kern.Linear(d, active_dims=columns, name=f"line_{name}")
        curve = GPy.kern.RBF(d, lengthscale=d**0.5, active_dims=columns, name=f"curve_{name}")
        return line + curve

    def of_task(name: str) -> Any:
        kernel = GPy.kern.Coregionalize(
            1, T, rank=1, W=np.zeros((T, 1)), kappa=np.ones(T), active_dims=[d], name=name
        )
        kernel.W.fix()
        kernel.kappa.fix()
        return kernel

    scores = []
    for target in targets:
        mean, scale = target.mean(), target.std() or 1.0
        kernel = smooth("common") + smooth("own") * of_task("task") + of_task("mean")
        model = GPy.models.GPRegression(rows, (target[:, np.newaxis] - mean) / scale, kernel)
        model.optimize(max_iters=200)
        scores.append(mean + scale * model.predict(rows_new)[0][:, 0])
    if classes is None:
        return np.asarray(scores[0])
    if len(classes) == 2:
        return np.asarray(classes[(scores[0] > 0).astype(int)])
    return np.asarray(classes[np.argmax(scores, axis=0)])


def statsmodels(case: Case) -> Array:
    """Return predictions of statsmodels' mixed model: a random intercept of each task."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    if case.is_classes:
        raise NotImplementedError("its mixed model of classes is variational")
    X, X_new = case.standardised()
    used = X.std(axis=0) > 0
    X, X_new = (np.column_stack([np.ones(len(Z)), Z[:, used]]) for Z in (X, X_new))
    fit = MixedLM(case.y, X, groups=case.task).fit()
    effects = {t: float(np.asarray(value)[0]) for t, value in fit.random_effects.items()}
    own = np.array([effects.get(t, 0.0) for t in case.task_new.tolist()])
    return np.asarray(X_new @ fit.fe_params + own)


METHODS: dict[str, Callable[[Case], Array]] = {
    one.__name__: one
    for one in (ridge, forest, lightgbm, catboost, gpboost, flaml, gpy, statsmodels)
}


def main(method: str, folder: Path) -> None:
    """Write the answers of a method."""
    (folder / method).mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.npz")):
        case, started = Case(path), time.process_time()
        try:
            predicted = METHODS[method](case)
        except Exception as error:  # noqa: BLE001 - in any way
            print(f"{method}, {path.stem}: {error}", file=sys.stderr)
            continue
        seconds = time.process_time() - started
        np.savez(folder / method / path.name, predicted=predicted, seconds=seconds)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
