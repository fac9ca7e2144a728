"""Serving: models over HTTP and gRPC. From the core outwards: `batching`, `models`, `service`; then `http` and `rpc`,
the ways in; `server` and `workers`, the processes.
"""
