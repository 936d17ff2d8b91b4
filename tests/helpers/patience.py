"""How long tests wait for what comes by itself."""

PATIENCE_S = 180.0
"""More means that it hangs: a busy machine with all kernels still to compile is no defect."""
