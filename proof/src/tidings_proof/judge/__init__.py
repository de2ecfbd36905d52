"""The judge: compares what devices saw with what the stores hold."""
