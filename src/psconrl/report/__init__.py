"""Figures and tables from stored runs."""
