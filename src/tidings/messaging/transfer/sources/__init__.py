"""Exports of other products, each as a source of conversations."""
