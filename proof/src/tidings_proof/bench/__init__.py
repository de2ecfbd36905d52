"""`tidings bench`: load on a server, what each operation cost, and whether the targets were met.

load/ makes load in processes of its own. target/ starts or finds the server. claims/ has one file for each benchmark
with targets. trials/ puts load on any server by its URL. report/ renders tables, pictures and pages.
"""
