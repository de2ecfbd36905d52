"""Bounds of the reads on PostgreSQL."""

PAGE_STATEMENTS = 2  # statements that read pages at the same time: with more of them fewer pages share one
PAGES_TOGETHER = 32  # pages in one statement: some milliseconds of the server
