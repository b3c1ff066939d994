"""Gaussian-process latent variable models, shared by TLVM and the GP-LVM."""
