"""Multi-task and transfer-learning algorithms on numpy and scipy, without web or database."""
