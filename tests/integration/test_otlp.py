"""A real OpenTelemetry exporter against the running daemon."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

from tests.integration.live import daemon


def test_spans_of_a_real_exporter_are_counted(tmp_path):
    """What the SDK exports, gzipped protobuf, is answered as the protocol wants and counted in the daemon."""
    with daemon(tmp_path) as run:
        run.wait_ready()
        provider = TracerProvider()
        exporter = OTLPSpanExporter(endpoint=f"{run.base}/v1/traces", compression=Compression.Gzip)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        tracer = provider.get_tracer("t")
        for number in range(300):
            attributes = {"messaging.destination.name": "orders", "messaging.message.id": str(number)}
            with (
                tracer.start_as_current_span("send", kind=SpanKind.PRODUCER, attributes=attributes),
                tracer.start_as_current_span("process", kind=SpanKind.CONSUMER, attributes=attributes),
            ):
                pass
        assert provider.force_flush()
        provider.shutdown()
        run.wait(lambda: counted(run) == 300, 5.0, "not all spans are counted")


def counted(run) -> float:
    """The sum of all successes."""
    rows = run.json("/api/v1/query?query=sum(task_succeeded_total)")["data"]["result"]
    return float(rows[0]["value"][1]) if rows else 0.0
