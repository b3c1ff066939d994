# %% [markdown]
# # RMT-PCA: principal components of tasks with few rows
#
# **Multi-task PCA on Grassmann manifolds** finds a subspace for each task, and draws the subspaces of all tasks
# together as far as the rows support it. It lies between PCA of each task and one PCA for all rows.
#
# The data are nine measurements of the diabetes patients of scikit-learn, standardised. A task is a group of patients
# of one sex and a decade of age, with 6 training rows each.

# %%
import numpy as np
from sklearn.datasets import load_diabetes

from sibling import RMTPCA, CommonPCA, TaskPCA

data = load_diabetes(scaled=False).data
decades = np.array(["under 40", "40 to 49", "50 to 59", "60 and over"])
age = decades[np.digitize(data[:, 0], [40, 50, 60])]
sex = np.where(data[:, 1] == 1, "sex 1", "sex 2")
groups = np.char.add(np.char.add(age, ", "), sex)
X = np.delete(data, 1, axis=1)
X = (X - X.mean(axis=0)) / X.std(axis=0)

rng = np.random.default_rng(0)
names = np.unique(groups)
train = np.concatenate([rng.permutation(np.flatnonzero(groups == name))[:6] for name in names])
test = np.setdiff1d(np.arange(len(X)), train)

# %% [markdown]
# ## Does learning together help?
#
# The score is the squared error of the held-out rows after they were projected to three components and back, relative
# to their variance: smaller is better.

# %%
methods = {
    "RMT-PCA": RMTPCA(k=3),
    "PCA of each task": TaskPCA(k=3),
    "one subspace for all": CommonPCA(k=3),
}
for name, method in methods.items():
    method.fit(X[train], tasks=groups[train])
    errors = []
    for task in names:
        rows = X[test][groups[test] == task]
        again = method.inverse_transform(method.transform(rows, tasks=task), tasks=task)
        errors.append(np.sum((rows - again) ** 2) / np.sum((rows - rows.mean(axis=0)) ** 2))
    print(f"{name}: error {np.mean(errors):.3f}")
model = methods["RMT-PCA"]

# %% [markdown]
# Six rows are too few for a subspace of their own, and the groups differ little: RMT-PCA (0.347) is much better than
# PCA of each task (0.424), and slightly worse than one subspace for all (0.338), which is simpler.
#
# ## What was learned
#
# The largest angle between the subspaces of two tasks. **Look for dark blocks:** tasks with almost the same subspace.
# Bright rows belong to tasks with a direction that the others lack. Here all of the first picture is dark: the
# angles are 7° to 18° on a scale of 0° to 90°, so the subspaces are nearly one. The second picture shows PCA of each
# task, without sharing, on the same scale: 42° to 87°.

# %%
model.plot("angles")

# %%
methods["PCA of each task"].plot("angles")

# %% [markdown]
# The share of the variance along each component of each task, on the training rows. **Look for lines that stop
# falling:** more components add noise.

# %%
model.plot("spectrum")

# %% [markdown]
# The relations say how much the subspaces overlap, from 0 to 1. Here all are strong (0.96 to 1.00), as the small angles
# suggest: **look for pale rows,** of which there are none.

# %%
model.plot("relations")

# %% [markdown]
# The objective is the variance along the components plus the agreement of the subspaces, which RMT-PCA maximises: it
# rises. Its first value is close to the last, as the fit starts from a good guess.

# %%
model.plot("objective")

# %% [markdown]
# ## When not to use it
#
# - Each task has many more rows than columns: PCA of each task is as good.
# - The tasks differ in nothing but their means: one subspace for all is simpler.
# - The columns have different units: standardise them first, as above, or the largest unit wins.
