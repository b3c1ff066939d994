"""Trained models in formats of other programs: MLflow and ONNX."""


class NotExportable(ValueError):
    """Raised if another format cannot have a model with the same outputs; says why."""
