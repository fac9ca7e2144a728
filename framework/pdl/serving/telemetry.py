"""Spans of OpenTelemetry for requests. The process chooses where they go, as its SDK has it
(`opentelemetry-instrument pdl serve ... --otel`, or its environment variables).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdl.errors import PackageError
from pdl.version import __version__


class OpenTelemetry:
    """A span a request, a child of the one that its `traceparent` names."""

    def __init__(self, tracer: Any = None) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.propagate import extract
        except ImportError:
            raise PackageError(
                "--otel needs OpenTelemetry: pip install opentelemetry-sdk opentelemetry-distro"
            ) from None
        self.tracer = tracer if tracer is not None else trace.get_tracer("pdl.serving", __version__)
        self._extract, self._kind, self._status = extract, trace.SpanKind.SERVER, trace.Status
        self._error = trace.StatusCode.ERROR

    def begin(self, name: str, carrier: Mapping[str, str]) -> Any:
        """The span of a request."""
        return self.tracer.start_span(name, context=self._extract(carrier), kind=self._kind)

    def end(self, span: Any, facts: Mapping[str, Any]) -> None:
        """Its end, with what is known."""
        for key, value in facts.items():
            if value != "":
                span.set_attribute(f"pdl.{key}", value)
        if facts["status"] >= 500:
            span.set_status(self._status(self._error, facts["reason"]))
        span.end()
