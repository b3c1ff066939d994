"""Partial pooling: a linear mixed model with random coefficients of each task.

    y_t = X_t(b + u_t) + e_t,   u_t ~ N(0, Σ),   e_t ~ N(0, σ²I)

X_t has a column of ones. The fixed effects b are common to all tasks, and task t adds u_t: an
intercept, or an intercept and coefficients. Σ and σ² maximise the restricted likelihood (REML), so
that the data decide how far each coefficient is drawn to the common one: none where tasks differ,
all the way where they do not. The prediction is X(b + E[u_t]) (empirical Bayes, or BLUP). The noise
of a row of weight s has the variance σ²/s. Of two classes, X_t(b + u_t) is the log-odds of the
second, and the likelihood is Laplace's approximation
(:mod:`algorithms.baselines.mixed_model.binomial`).

Cost: O(T d² min(d, n_t)) per quasi-Newton step, some ten times that for classes, never n × n. All
levels of a category share one variance, as each alone is in few rows. A new task gets E[u] from its
own rows, with b, Σ and σ² fixed.

Reference: Laird, Ware, *Random-effects models for longitudinal data*, Biometrics 1982,
doi:10.2307/2529876 (equations: :mod:`algorithms.baselines.mixed_model.likelihood`)
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from algorithms.baselines.linear.baseline import LinearBaseline
from algorithms.baselines.linear.pooling import check_two_classes
from algorithms.baselines.mixed_model.binomial import BinomialProblem
from algorithms.baselines.mixed_model.covariance import Structure
from algorithms.baselines.mixed_model.likelihood import MixedModelProblem, posterior_mean
from algorithms.baselines.mixed_model.params import MixedModelParams
from algorithms.families.linear.design import Form, check_targets, prepare
from algorithms.families.linear.functions import functions_of
from algorithms.families.linear.model import LinearModel, check_new_task
from algorithms.families.linear.work import estimate_preparation
from algorithms.interface.algorithm import Baseline
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.centering import times_roots
from algorithms.solvers.lbfgs import minimise

#: Maximum number of columns of a full covariance.
MAX_FULL_COLUMNS: Final = 30
#: Maximum number of entries of the products of all tasks' columns, which take 800 MB.
MAX_PRODUCTS: Final = 100_000_000
#: Quasi-Newton steps, as counted in benchmarks, and their operations for each task and product of
#: three columns, which are slow because the matrices are small.
N_STEPS: Final = 70.0
STEP_FLOPS: Final = 40.0
#: Linear models of a quasi-Newton step for classes, and numbers that pass through memory for each
#: entry of the rows of one, as measured.
N_NEWTON: Final = 8.0
ROW_VALUES: Final = 12.0
#: Derivatives of the approximate likelihood of classes may be so many times the tolerance.
APPROXIMATE: Final = 100.0


class MixedModel(LinearBaseline[MixedModelParams]):
    """A linear mixed model by restricted maximum likelihood."""

    name = "mixed-model"
    title = "Linear mixed model"
    summary = (
        "Partial pooling: common coefficients plus random ones of each task, whose variances are "
        "estimated by REML. The standard method of statistics for grouped rows. For more rows in "
        "total than columns; numbers, or two classes with a logit link."
    )
    question = "The groups are similar, with few rows each: what do they have in common?"
    reference = "Laird and Ware (1982), doi:10.2307/2529876"
    baselines = (
        Baseline("ridge", "single_task", ("standardise",), {"form": "task"}),
        Baseline("ridge", "pooled", ("standardise",), {"form": "pooled"}),
        Baseline("mean-regularised", "multi_task", ("standardise",)),
    )
    monotone = "down"
    Params = MixedModelParams

    def check(self, summaries: Sequence[TaskSummary], params: MixedModelParams) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_two_classes(summaries, algorithm=self.name)
        self._check_size(summaries, params)
        n, d = sum(task.n_samples for task in summaries), summaries[0].n_features
        if n <= d + 1:
            raise InvalidData(
                f"{self.name} needs at least {d + 2} rows in total for {d} columns and an "
                f"intercept, got {n}; use mean-regularised or ridge, or add rows"
            )

    def _check_size(self, summaries: Sequence[TaskSummary], params: MixedModelParams) -> None:
        d = summaries[0].n_features
        if params.random == "slopes" and params.covariance == "full" and d > MAX_FULL_COLUMNS:
            raise InvalidParams(
                f"covariance 'full' supports up to {MAX_FULL_COLUMNS} columns, the tasks have {d}; "
                "use 'diagonal' or 'shared'",
                field="covariance",
            )
        q = d + 1 if params.random == "slopes" else 1
        if len(summaries) * q * (d + 1) > MAX_PRODUCTS:
            raise InvalidData(
                f"{len(summaries)} tasks of {d} columns need {len(summaries) * q * (d + 1)} "
                f"products of columns; {self.name} supports up to {MAX_PRODUCTS}: use random "
                "'intercepts', fewer columns or fewer tasks"
            )

    def work(self, summaries: Sequence[TaskSummary], params: MixedModelParams) -> WorkEstimate:
        """Return the work of the products of columns, and of the quasi-Newton steps."""
        T, p = len(summaries), summaries[0].n_features + 1
        q = p if params.random == "slopes" else 1
        n_steps, n_most = min(N_STEPS, params.max_iter), max(s.n_samples for s in summaries)
        values = 0.0
        if summaries[0].target == "classes":
            n_steps *= N_NEWTON
            values = ROW_VALUES * n_steps * sum(s.n_samples for s in summaries) * p
        steps = WorkEstimate(
            f"{n_steps:g} steps of {T:,} tasks with {p:,} coefficients",
            "use random 'intercepts', or fewer columns or tasks",
            flops=n_steps * STEP_FLOPS * T * q * min(q, n_most) * p,
            values=values,
            steps=n_steps * T,
        )
        return estimate_preparation(summaries) + steps

    def fit(
        self, tasks: TaskSet, params: MixedModelParams, *, trace: Trace, rng: np.random.Generator
    ) -> LinearModel:
        """Return b + E[u_t] of each task, with the variances that REML estimates."""
        del rng
        self.check(tasks.summaries(), params)
        design = prepare(
            tasks,
            Form(params.standardise),
            scale_targets=params.scale_targets,
            has_intercept=True,
            coordinates="own",
        )
        is_numbers = tasks.tasks[0].target == "numbers"
        problem = (MixedModelProblem if is_numbers else BinomialProblem).of(
            design.rows,
            [target.Y[:, 0] for target in design.targets],
            has_slopes=params.random == "slopes",
            weights=[target.weights for target in design.targets],
        )
        sources = tasks.tasks[0].sources
        structure = Structure.of(params.covariance, problem.n_effects, sources)
        end = minimise(
            lambda z: problem.objective(z, structure),
            structure.start(),
            trace=trace,
            loop="likelihood",
            max_iter=params.max_iter,
            tolerance=params.tolerance,
            scale=1.0 if is_numbers else APPROXIMATE,
        )
        Psi = structure.matrix(end.z)
        effects = problem.effects(Psi)
        coefficients = np.tile(effects.b, (len(tasks), 1))
        coefficients[:, : problem.n_effects] += effects.U
        # in the units of the values of the basis, and of the targets
        units = np.append(1.0, np.full(len(effects.b) - 1, 1 / design.row_unit))
        own_units = units[: problem.n_effects]
        Psi = own_units[:, np.newaxis] * Psi * own_units
        unit = design.target_unit
        fit_info: dict[str, Any] = {
            "params": params.model_dump(mode="json"),
            "link": "identity" if is_numbers else "logit",
            "fixed_effects": (unit * units * effects.b).tolist(),
            "relative_covariance": (Psi if structure.is_full else np.diag(Psi)).tolist(),
        }
        if is_numbers:
            fit_info["residual_variance"] = unit**2 * effects.noise
        return LinearModel(
            functions_of(
                tasks,
                design,
                np.ascontiguousarray(coefficients[:, 1:]),
                coefficients[:, 0].copy(),
                algorithm=self.name,
                fit_info=fit_info,
                warnings=_warnings(params, trace),
                common=(effects.b[1:], float(effects.b[0])),
            )
        )

    def has_common_part(self, params: MixedModelParams) -> bool:
        """Return True: the fixed effects are the prediction for a task without rows."""
        del params
        return True

    def adapt_task(self, model: LinearModel, task: Task, *, trace: Trace) -> LinearModel:
        """Return the model with a new task, whose E[u] follows from its rows for the fixed Σ."""
        del trace
        check_new_task(model, task)
        info = model.fit_info
        params = MixedModelParams.model_validate(info["params"])
        self.needs.check([task.summary()], algorithm=self.name)
        check_targets([task.summary()], algorithm=self.name)
        check_two_classes([task.summary()], algorithm=self.name)
        rows, targets = model.functions.new_rows(task, has_intercept=True)
        A = np.column_stack([np.ones(len(rows)), rows])
        b = np.array(info["fixed_effects"]) / model.functions.target_unit
        Psi = np.array(info["relative_covariance"])
        effects = b.copy()
        Psi = Psi if params.covariance == "full" else np.diag(Psi)
        if info.get("link") == "logit":
            has_slopes, y = params.random == "slopes", targets.Y[:, 0]
            of_task = BinomialProblem.of(
                [rows], [y], has_slopes=has_slopes, weights=[targets.weights], known=b
            )
            effects[: len(Psi)] += of_task.effects(Psi).U[0]
        else:  # numbers, or classes of a model of an earlier version
            A, Y = (times_roots(part, targets.weights) for part in (A, targets.Y))
            effects[: len(Psi)] += posterior_mean(A, Y[:, 0], b=b, Psi=Psi)
        W, intercept = effects[1:, np.newaxis], effects[:1]
        fitted = rows @ W + intercept
        return LinearModel(
            model.functions.with_task(task.name, targets, W, intercept=intercept, fitted=fitted)
        )


def _warnings(params: MixedModelParams, trace: Trace) -> tuple[str, ...]:
    if trace.stop_reasons["likelihood"] != "max_iter":
        return ()
    text = f"the estimates of the variances did not converge in {params.max_iter} steps"
    return (f"{text}; increase max_iter, or use a simpler covariance",)
