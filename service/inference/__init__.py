"""Inference with trained models, under /v1 and by the Open Inference Protocol."""
