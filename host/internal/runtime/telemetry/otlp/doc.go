// Package otlp exports the spans of runs to an OpenTelemetry collector.
//
// An Exporter observes the records of all runs, turns them into spans and events with
// package spans, and hands them to the OpenTelemetry SDK, which sends them in batches
// over gRPC or HTTP. Spans go as traces. Events go as log records, which is how the
// semantic conventions define them.
//
// Observe never blocks on the collector: at most Settings.Queue spans, and as many
// events, wait or are on their way. Further ones are dropped and counted, and so is
// what the collector did not accept in time.
//
// Concurrency: an Exporter is safe for concurrent use. Without settings it costs an
// atomic load per record.
//
// Errors: a failed export is a line in the log and a count; no run learns of it.
package otlp
