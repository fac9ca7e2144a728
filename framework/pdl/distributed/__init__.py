"""Several processes that train one model: groups of ranks over MPI (`group`), gradients in buckets (`reduction`), how
ranks start (`launcher`). Importing it imports none of these."""
