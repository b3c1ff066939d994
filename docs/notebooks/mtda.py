# %% [markdown]
# # MTDA: classes in tasks with different columns
#
# **Multi-task discriminant analysis** (Zhang and Yeung 2011) finds directions that separate the classes. The tasks may
# have columns of their own: each has its own map into a space in which the tasks share the directions.
#
# Three sensors see the handwritten digits of scikit-learn: one the left half of an image, one the right half, and one
# a coarse version of all of it. They see different images, and each has only three for each digit.

# %%
import numpy as np
from sklearn.datasets import load_digits

from sibling import MTDA, PCAClassifier, TraceRatioLDA

X, y = load_digits(return_X_y=True)
images = X.reshape(-1, 8, 8)
sensors = {
    "left half": images[:, :, :4].reshape(-1, 32),
    "right half": images[:, :, 4:].reshape(-1, 32),
    "coarse": images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16),
}
parts = np.array_split(np.random.default_rng(0).permutation(len(y)), 3)


def choose(rows, start, stop):
    """Return the positions of some images of each digit."""
    return np.concatenate([rows[y[rows] == digit][start:stop] for digit in range(10)])


seen = dict(zip(sensors, parts, strict=True))
train = {name: choose(rows, 0, 3) for name, rows in seen.items()}
test = {name: choose(rows, 3, 40) for name, rows in seen.items()}
X_train = {name: sensors[name][rows] for name, rows in train.items()}
X_test = {name: sensors[name][rows] for name, rows in test.items()}
y_train = {name: y[rows] for name, rows in train.items()}
y_test = {name: y[rows] for name, rows in test.items()}

# %% [markdown]
# ## Does learning together help?
#
# The baselines learn each sensor alone: the same criterion, and plain PCA with the nearest neighbour.

# %%
methods = {
    "MTDA, together": MTDA(d=9),
    "trace ratio, each alone": TraceRatioLDA(d=9),
    "PCA, each alone": PCAClassifier(d=9),
}
for name, method in methods.items():
    method.fit(X_train, y_train)
    print(f"{name}: {method.score(X_test, y_test):.1%} right")
model = methods["MTDA, together"]

# %% [markdown]
# Here it does not: with clean images and nine dimensions, PCA is hard to beat. Believe such a result. The
# [benchmarks](../benchmarks/index.md) have data on which MTDA does help.
#
# ## What was learned
#
# The training rows along the first two directions. **Look for groups of one class in every panel.** Training rows
# that fall into single points are a sign of more columns than rows, not of a good classifier.

# %%
model.plot("scatter")

# %% [markdown]
# The confusion matrix of held-out images. **Look off the diagonal:** which digits are taken for each other?

# %%
model.plot("confusion", X_test, y_test)

# %% [markdown]
# The objective is the ratio of the scatter between the classes to the total scatter, over all tasks, which MTDA
# maximises: it rises until it no longer changes.

# %%
model.plot("objective")

# %% [markdown]
# ## When not to use it
#
# - The tasks have many rows: discriminant analysis of each task alone is as good.
# - The columns have no linear directions that separate the classes.
# - You need probabilities: it has distances only.
