package language

// OTLPProtocols returns the protocols of a collector; the first is the default.
func OTLPProtocols() []string { return []string{"grpc", "http"} }

// LogLevels returns the levels of log lines, beginning with the most verbose.
func LogLevels() []string { return []string{"trace", "debug", "info", "warn", "error"} }

// LogModules returns the parts of the host whose log level can be set separately.
func LogModules() []string { return []string{"host", "http", "runs", "plugin", "candidates"} }

// telemetryBlock configures the telemetry of a daemon.
var telemetryBlock = Block{
	Name: "telemetry", Doc: "what the daemon reports about itself: its log, its metrics and its traces",
	Attrs: []Attr{
		{
			Name: "level", Type: enum(LogLevels()...), Default: `"info"`, Reload: ReloadUse, Serves: "TEL-001",
			Doc: "lowest level of log lines that are written; audit lines always are",
		},
		{
			Name: "levels", Type: Type{Kind: KindMap, Key: ptr(enum(LogModules()...)), Elem: ptr(enum(LogLevels()...))},
			Default: `{}`, Reload: ReloadUse, Serves: "TEL-001",
			Doc: "levels of parts of the host; \"ferment admin log-level\" changes them until a reload changes this block",
		},
		{
			Name: "content", Type: enum("off", "hash", "full"), Default: `"hash"`, Profiles: development(`"full"`),
			AsStrict: []string{"off"}, Reload: ReloadUse, Serves: "TEL-001",
			Doc: "what exported traces and transcripts contain of requests and answers: off, nothing; hash, their hash; " +
				"full, their text, up to 16 KiB in traces. The log contains error messages of runs only with full",
		},
		{Name: "fold", Type: Type{Kind: KindRate}, Default: `"10/s"`, Reload: ReloadUse, Serves: "TEL-001"},
		{
			Name: "max_series", Type: integer(100, 100_000), Default: `2000`, Reload: ReloadUse, Serves: "TEL-004",
			Doc: "maximum number of series of one metric; further ones are counted under the label value \"other\"",
		},
	},
	Blocks: []Block{{
		Name: "otel", Doc: "export of traces to an OpenTelemetry collector",
		Attrs: []Attr{
			{
				Name: "enabled", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "TEL-005",
				Doc: "whether the spans of runs are exported; then endpoint is required",
			},
			{
				Name: "endpoint", Type: text, Reload: ReloadUse, Serves: "TEL-005",
				Doc: "URL of the collector, such as http://127.0.0.1:4317; with http there is no TLS. " +
					"Over protocol http, v1/traces and v1/logs are appended to its path",
			},
			{
				Name: "protocol", Type: enum(OTLPProtocols()...), Default: `"grpc"`, Reload: ReloadUse, Serves: "TEL-005",
				Doc: "OTLP over gRPC, or protobuf over HTTP",
			},
			{
				Name: "sample", Type: number01(), Default: `1`, Reload: ReloadUse, Serves: "TEL-005",
				Doc: "share of the runs that are exported; each of them whole",
			},
			{
				Name: "headers", Type: Type{Kind: KindMap, Elem: &Type{Kind: KindSecret}}, Default: `{}`, Reload: ReloadUse,
				Serves: "TEL-005",
				Doc:    "headers of each request, such as { authorization = secret(\"env:COLLECTOR_TOKEN\") }",
			},
			{
				Name: "queue", Type: integer(1, 1_000_000), Default: `2048`, Reload: ReloadUse, Serves: "TEL-007",
				Doc: "maximum number of spans, and of events, that wait for the collector; further ones are dropped and counted",
			},
		},
	}},
}
