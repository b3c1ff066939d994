"""The Open Inference Protocol, version 2, with its extension for binary tensors."""
