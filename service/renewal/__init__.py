"""Renewal of aliases: retraining by a rule, a challenger beside the champion, and promotion."""
