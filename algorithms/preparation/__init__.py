"""Preparation of raw tables: gaps are filled, categories and dates become numbers."""
