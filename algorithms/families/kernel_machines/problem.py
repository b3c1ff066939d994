"""The dual problem of kernel machines with an output kernel."""

from dataclasses import dataclass

import numpy as np

from algorithms.families.kernel_machines.certificate import Certificate, certify
from algorithms.families.kernel_machines.examples import Examples
from algorithms.families.kernel_machines.losses import Loss
from algorithms.families.kernel_machines.output_kernels import OutputKernel
from algorithms.numerics.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A dual problem: examples with a kernel matrix, or with features if ``K`` is None.

    Parameters
    ----------
    examples
        ``examples.X`` are the features if ``K`` is None.
    K : (N, N) or None
    loss
        Loss of the predictions.
    kernel
        Output kernel.
    """

    examples: Examples
    K: Array | None
    loss: Loss
    kernel: OutputKernel

    def products(self, kappa: Array) -> Array:
        """Return κ_sᵀK (T, N) for a kernel matrix, or X_sᵀκ_s (T, d) for features."""
        e = self.examples
        source = e.X if self.K is None else self.K
        if not kappa.any():
            return np.zeros((e.n_outputs, source.shape[1]))
        if e.is_shared:
            return np.ascontiguousarray(kappa.reshape(e.n_outputs, -1) @ source)
        return np.array([kappa[p] @ source[r] for p, r in zip(e.parts, e.rows, strict=True)])

    def gram(self, kappa: Array, products: Array) -> Array:
        """Return g (T, T), exactly symmetric."""
        e = self.examples
        if self.K is None:
            g = products @ products.T
        elif e.is_shared:
            g = products @ kappa.reshape(e.n_outputs, -1).T
        else:
            pairs = zip(e.parts, e.rows, strict=True)
            g = np.array([products[:, r] @ kappa[p] for p, r in pairs])
        return np.ascontiguousarray((g + g.T) / 2)

    def predictions(self, products: Array, theta: Array) -> Array:
        """Return the prediction F for each example, (n,)."""
        e = self.examples
        if self.K is None:
            mixed = theta @ products
            return np.concatenate(
                [e.X[r] @ slopes for r, slopes in zip(e.rows, mixed, strict=True)]
            )
        if e.is_shared:
            return np.asarray(theta @ products).ravel()
        pairs = zip(theta, e.rows, strict=True)
        return np.concatenate([mixing @ products[:, r] for mixing, r in pairs])

    def certificate(
        self, kappa: Array, products: Array | None = None, g: Array | None = None
    ) -> Certificate:
        """Return the certificate of κ (n,)."""
        products = self.products(kappa) if products is None else products
        g = self.gram(kappa, products) if g is None else g
        F = self.predictions(products, self.kernel.theta(g))
        e = self.examples
        return certify(y=e.y, w=e.w, kappa=kappa, F=F, g=g, loss=self.loss, kernel=self.kernel)

    def initial_kappa(self) -> Array:
        """Return the initial κ (n,), scaled such that Θ is of moderate size."""
        kappa = self.loss.initial_kappa(self.examples.y, self.examples.w)
        return kappa * self.kernel.shrinkage(self.gram(kappa, self.products(kappa)))
