"""Rows of a table with a class or a number each."""

from pdl_rec.rows.task import RowPrediction
