"""The compiled core. Only ``vademecum.kernels`` imports it, and only if it was built."""
