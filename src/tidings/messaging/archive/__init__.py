"""The cold tier: old texts move to blobs as segments and are read through from there."""
