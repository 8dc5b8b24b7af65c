package language

import "time"

// EffectNames are the effects that a capability may declare and an operator may restrict.
var EffectNames = []string{"none", "fs/read", "fs/write", "process/run", "net/http", "db/read", "db/write"}

// UnknownSuspends is the default of intent.on_unknown.
const UnknownSuspends = "suspend"

var environment = Type{Kind: KindMap, Key: &variable, Elem: &text}

// Specification returns the specification of the configuration language. It determines decoding,
// defaults, the rejection of features that this build lacks, and the reference. Callers must not
// modify it.
func Specification() *Block { return &specification }

// The lowest limits with which a process can start: runtimes with an RPC server need this memory,
// and the threads of the host count as processes of its user.
const (
	leastMemory    = 16 * mib
	leastProcesses = 16
)

var specification = Block{Blocks: []Block{
	{
		Name: "ferment", Doc: "settings of the host process",
		Attrs: []Attr{
			{
				Name: "data_dir", Type: path, Default: `"var"`, Reload: ReloadHost, Serves: "OPS-002",
				Doc: "data directory of the host: journal, sessions and users, plugin logs, caches and the admin socket",
			},
			{
				Name: "lock_file", Type: path, Default: `"ferment.lock.hcl"`, Reload: ReloadHost, Serves: "LOCK-001",
				Doc: "file with the approved programs and what each of them may do",
			},
			{
				Name: "root", Type: path, Reload: ReloadHost, Serves: "RUN-008",
				Doc: "base directory of relative paths in inputs; default: the directory of the configuration",
			},
			{
				Name: "profile", Type: enum(Profiles()...), Default: `"prod"`, Reload: ReloadHost, Serves: "OPS-009",
				Doc: "selects defaults and configuration files; --profile and FERMENT_PROFILE override " +
					"it; allowed only in ferment.hcl and common/, as a literal or env()",
			},
			{
				Name: "requires", Type: version, Reload: ReloadNothing, Serves: "WIRE-005",
				Doc: "host versions that may read this configuration",
			},
			{
				Name: "drain_timeout", Type: dur(0, 10*time.Minute), Default: `"25s"`, Reload: ReloadUse,
				Serves: "OPS-004",
				Doc:    "how long a shutdown of the daemon waits for running runs",
			},
			{
				Name: "reload_timeout", Type: dur(time.Second, 10*time.Minute), Default: `"60s"`, Reload: ReloadUse,
				Serves: "OPS-009, HCL-039",
				Doc:    "time limit for the plugins that a reload starts",
			},
			{
				Name: "auto_reload", Type: boolean, Default: `false`, Profiles: map[string]string{ProfileDev: `true`},
				Reload: ReloadUse, Serves: "HCL-039",
				Doc: "reload when a file of the configuration changes",
			},
			{
				Name: "memory_limit", Type: size(leastMemory, tib).orZero(), Default: `0`, Reload: ReloadHost,
				Serves: "OPS-010",
				Doc: "soft memory limit of the host process without its plugins; 0: derived from the " +
					"memory of the machine and the cgroup",
			},
			{
				Name: "gogc", Type: integer(0, 1000), Default: `0`, Reload: ReloadHost, Serves: "OPS-010",
				Doc: "heap growth in percent that triggers a garbage collection; 0: chosen by the host",
			},
			{
				Name: "max_runs", Type: integer(1, 100_000), Default: `1024`, Reload: ReloadUse, Serves: "RUN-011",
				Doc: "maximum number of concurrent runs",
			},
			{
				Name: "max_depth", Type: integer(1, 64), Default: `16`, Reload: ReloadUse, Serves: "SCHED-005",
				Doc: "maximum nesting depth of plans, maps and host calls in one run",
			},
			{
				Name: "max_nodes", Type: integer(1, 100_000), Default: `10000`, Reload: ReloadUse,
				Serves: "SCHED-005",
				Doc:    "maximum number of nodes in one run",
			},
			{
				Name: "max_parallel", Type: integer(1, 1024), Default: `8`, Reload: ReloadUse, Serves: "SCHED-001",
				Doc: "maximum number of concurrent nodes of one plan",
			},
			{
				Name: "mode", Type: enum("strict", "lazy", "hybrid"), Default: `"hybrid"`, Reload: ReloadUse,
				Serves: "SCHED-001",
				Doc:    "scheduling mode of plans that set none",
			},
			{
				Name: "min_stability", Type: enum("experimental", "stable"), Default: `"experimental"`,
				Reload: ReloadUse, Serves: "ENV-010",
				Doc: "capabilities with a lower stability are not registered",
			},
			{
				Name: "seed", Type: integer(0, 1<<53-1), Default: `0`, Reload: ReloadUse, Serves: "IR-007",
				Doc: "random seed of every run; 0: a new seed for each run",
			},
		},
	},
	{
		Name: "include", Label: LabelPattern,
		Doc: "loads other files before this file; the label is a path or glob pattern relative to this file's directory",
		Attrs: []Attr{
			{
				Name: "optional", Type: boolean, Default: `false`, Reload: ReloadNothing, Serves: "HCL-016",
				Doc: "a pattern without a match is not an error; must be a literal true or false",
			},
		},
	},
	{Name: "locals", Open: true, Doc: "names for expressions, referenced as local.NAME"},
	pluginBlock,
	{
		Name: "capability", Label: LabelQualified, Doc: "restricts or renames one capability of a plugin",
		Attrs: []Attr{
			{
				Name: "plugin", Type: ref("plugin"), Required: true, Reload: ReloadUse, Serves: "ENV-010",
				Doc: "the plugin that advertises the capability",
			},
			{
				Name: "provides", Type: text, Reload: ReloadUse, Serves: "ENV-010",
				Doc: "advertised id of the capability; default: the label",
			},
			{
				Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "ENV-010",
				Doc: "false: the capability is not registered",
			},
			{Name: "tags", Type: set(text), Reload: ReloadUse, Serves: "ENV-010", Doc: "replaces the advertised tags"},
			{
				Name: "effects", Type: set(enum(EffectNames...)), Reload: ReloadUse, Serves: "ENV-010",
				Doc: "subset of the advertised effects",
			},
			{
				Name: "role", Type: text, Reload: ReloadUse, Serves: "RTE-003",
				Doc: "prompt role, a key of prompts.roles; overrides the role of the intent",
			},
			{
				Name: "model_key", Type: text, Reload: ReloadUse, Serves: "RTE-003",
				Doc: "model that the plugin is asked for, a name or provider/name; overrides that of the intent; default: " +
					"the model of the capability",
			},
		},
		Blocks: []Block{
			{Name: "cost", Doc: "expected cost of one call; default: as advertised", Attrs: []Attr{
				{
					Name: "latency", Type: dur(0, day), Reload: ReloadUse, Serves: "ENV-010",
					Doc: "expected duration of one call",
				},
				{
					Name: "usd", Type: Type{Kind: KindDec}.atLeast(0), Reload: ReloadUse, Serves: "ENV-010",
					Doc: "expected price of one call in US dollars",
				},
			}},
			{Name: "limits", Doc: "limits below the advertised ones", Attrs: []Attr{
				{
					Name: "timeout", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "ATT-006",
					Doc: "time limit of one call",
				},
				{
					Name: "max_in_flight", Type: integer(1, 10_000), Reload: ReloadUse, Serves: "ENV-010",
					Doc: "maximum number of concurrent calls",
				},
			}},
			breakerBlock,
			scopeBlock("restricts the scope of the effects block", true),
		},
	},
	{
		Name: "schema", Label: LabelQualified,
		Doc: "a named schema; replaces an advertised or built-in schema of the same name",
		Attrs: []Attr{
			{
				Name: "spec", Type: edntext, Required: true, Reload: ReloadUse, Serves: "SCH-006",
				Doc: "the schema as EDN",
			},
			{Name: "doc", Type: text, Reload: ReloadUse, Serves: "SCH-006", Doc: "description of the schema"},
		},
	},
	{
		Name: "check", Label: LabelIdent, Doc: "a named gate; exactly one of builtin, condition and intent is required",
		Attrs: []Attr{
			{Name: "builtin", Type: text, Reload: ReloadUse, Serves: "GATE-002", Doc: "name of a built-in check"},
			{
				Name: "condition", Type: cond, Reload: ReloadUse, Serves: "GATE-002",
				Doc: "expression that is true if the answer passes",
			},
			{
				Name: "intent", Type: ref("intent"), Reload: ReloadUse, Serves: "GATE-002",
				Doc: "intent that returns the verdict",
			},
			{
				Name: "applies", Type: cond, Reload: ReloadUse, Serves: "TXT-007",
				Doc: "expression that is false if the check does not apply to the answer; default: true",
			},
			{
				Name: "message", Type: Type{Kind: KindTemplate}, Reload: ReloadUse, Serves: "GATE-002",
				Doc: "template of the finding's message; default: generated",
			},
			{
				Name: "evidence", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "TXT-007",
				Doc: "as a must check, fails if it does not apply",
			},
			{
				Name: "params", Type: Type{Kind: KindMap}, Default: `{}`, Reload: ReloadUse, Serves: "GATE-009",
				Doc: "parameters of the built-in check, or merged into the input of the intent",
			},
			{
				Name: "timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: `"10s"`, Reload: ReloadUse,
				Serves: "GATE-009",
				Doc:    "time limit of one call to the intent",
			},
		},
	},
	dispatchBlock,
	intentBlock,
	humanBlock,
	promptsBlock,
	routerBlock,
	judgeBlock,
	rubricBlock,
	effectsBlock,
	budgetBlock,
	roleBlock,
	operationsBlock,
	authBlock,
	httpBlock,
	storeBlock,
	queueBlock,
	cacheBlock,
	telemetryBlock,
	sessionBlock,
	{
		Name: "log", Doc: "log of the daemon on standard error",
		Attrs: []Attr{
			{
				Name: "format", Type: enum(LogFormats()...), Default: `"auto"`, Reload: ReloadHost, Serves: "TEL-001",
				Doc: "text: aligned columns; json: one JSON object per line; auto: text on a terminal, " +
					"otherwise json",
			},
		},
	},
}}

// The formats of the log.
const (
	LogAuto = "auto"
	LogText = "text"
	LogJSON = "json"
)

// LogFormats returns the formats of the log.
func LogFormats() []string { return []string{LogAuto, LogText, LogJSON} }

var pluginBlock = Block{
	Name: "plugin", Label: LabelIdent, Doc: "a program that serves capabilities",
	Attrs: []Attr{
		{
			Name: "command", Type: Type{Kind: KindList, Elem: &text, First: &programs}.between(1, 64), Required: true,
			Reload: ReloadPlugin, Serves: "SUP-001",
			Doc: "program and arguments; a relative program path is relative to the directory of this file",
		},
		{
			Name: "files", Type: list(path).between(0, 256), Default: `[]`, Reload: ReloadPlugin,
			Serves: "LOCK-001, HCL-041",
			Doc:    "files that an interpreter in command runs; they are hashed with the program",
		},
		{Name: "version", Type: version, Reload: ReloadUse, Serves: "LOCK-001", Doc: "accepted versions of the plugin"},
		{
			Name:   "needs",
			Type:   set(enum("net/connect", "net/loopback", "process/run", "process/self", "fs/read", "fs/watch", "fs/write")),
			Reload: ReloadPlugin, Serves: "ENV-019, LOCK-001",
			Doc: "restricts the needs of the process; default: the needs that the plugin states",
		},
		{
			Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadPlugin, Serves: "OPS-001",
			Doc: "false: the plugin is not started",
		},
		{
			Name: "optional", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "OPS-001",
			Doc: "true: the host starts and works without the plugin",
		},
		{
			Name: "env", Type: environment, Default: `{}`, Reload: ReloadPlugin, Serves: "SUP-001",
			Doc: "environment variables of the process, in addition to env_pass",
		},
		{
			Name: "env_pass", Type: list(variable), Default: `[]`, Reload: ReloadPlugin, Serves: "SUP-001",
			Doc: "names of environment variables that are copied from the host",
		},
		{
			Name: "workdir", Type: path, Reload: ReloadPlugin, Serves: "ISO-001",
			Doc: "working directory of the process; default: a private scratch directory; a plugin with " +
				"files may read only these files in it",
		},
		{
			Name: "start_timeout", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"10s"`,
			Reload: ReloadUse, Serves: "SUP-010",
			Doc: "time limit from process start to the end of Describe",
		},
		{
			Name: "configure_timeout", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"10s"`,
			Reload: ReloadUse, Serves: "WIRE-002",
			Doc: "time limit of Configure",
		},
		{
			Name: "stop_grace", Type: dur(0, 10*time.Minute), Default: `"2s"`, Reload: ReloadUse, Serves: "SUP-004",
			Doc: "time from the end of the drain to SIGKILL",
		},
		{
			Name: "drain_timeout", Type: dur(0, 10*time.Minute), Default: `"10s"`, Reload: ReloadUse,
			Serves: "SUP-004",
			Doc:    "how long running calls may take to finish before the process is stopped",
		},
		{
			Name: "max_in_flight", Type: integer(1, 10_000), Reload: ReloadUse, Serves: "ENV-010",
			Doc: "maximum number of concurrent calls; default and upper bound: the limit that the plugin advertises",
		},
		{
			Name: "queue", Type: integer(0, 10_000), Default: `32`, Reload: ReloadUse, Serves: "ENV-010",
			Doc: "maximum number of calls that wait for a free slot; further calls are rejected",
		},
		{
			Name: "max_message", Type: size(64*kib, 16*mib), Reload: ReloadPlugin, Serves: "WIRE-003",
			Doc: "maximum size of a message in either direction; default: the limit of the wire contract",
		},
		{
			Name: "encoding", Type: enum("edn", "json"), Reload: ReloadPlugin, Serves: "WIRE-003",
			Doc: "encoding of payloads; default: the encoding of the plugin's Describe response",
		},
		{
			Name: "mux", Type: boolean, Default: `true`, Reload: ReloadPlugin, Serves: "WIRE-007",
			Doc: "multiplex calls over one stream if the plugin supports it",
		},
		{
			Name: "call_depth", Type: integer(1, 16), Default: `8`, Reload: ReloadUse, Serves: "WIRE-004",
			Doc: "maximum depth of nested calls through this plugin",
		},
		{
			Name: "operations", Type: set(enum("prompt/override")), Default: `[]`, Reload: ReloadUse, Serves: "PRM-003, WS-144",
			Doc: "operations that are permitted to the calls and plans of the plugin, for every caller; " +
				"for a plugin whose system prompts are those of its config block",
		},
		{
			Name: "log_level", Type: enum("trace", "debug", "info", "warn", "error"), Default: `"info"`,
			Reload: ReloadUse, Serves: "SUP-009",
			Doc: "lowest level of plugin log lines that are kept",
		},
	},
	Blocks: []Block{
		{Name: "config", Foreign: true, Doc: "settings of the plugin, checked against its advertised schema"},
		{Name: "instances", Doc: "number and lifetime of the plugin's processes", Attrs: []Attr{
			{
				Name: "min", Type: integer(0, 256), Default: `1`, Reload: ReloadUse, Serves: "SUP-007",
				Doc: "processes that always accept calls; 0: the first call starts one",
			},
			{
				Name: "max", Type: integer(1, 256), Default: `1`, Reload: ReloadUse, Serves: "SUP-007",
				Doc: "processes that accept calls while calls are waiting",
			},
			{
				Name: "standby", Type: integer(0, 256), Default: `0`, Reload: ReloadUse, Serves: "SUP-007",
				Doc: "warm processes that accept no calls until they replace another process",
			},
			{
				Name: "idle_ttl", Type: dur(0, longest), Default: `"0s"`, Reload: ReloadUse, Serves: "SUP-007",
				Doc: "idle time after which a process above min is stopped; 0s: never",
			},
			{
				Name: "max_calls", Type: integer(0, most), Default: `0`, Reload: ReloadPlugin, Serves: "FX-003",
				Doc: "calls after which a process is replaced; 0: no limit; 1: one process per call",
			},
			{
				Name: "pin", Type: enum("none", "session"), Default: `"none"`, Reload: ReloadUse, Serves: "SES-003",
				Doc: "session: calls of one session use the same process",
			},
		}},
		{Name: "restart", Doc: "restart of a process that exits by itself", Attrs: []Attr{
			{
				Name: "policy", Type: enum("on-failure", "always", "never"), Default: `"on-failure"`,
				Reload: ReloadUse, Serves: "SUP-005",
				Doc: "exits that are followed by a restart",
			},
			{
				Name: "max", Type: integer(0, 1000), Default: `5`, Reload: ReloadUse, Serves: "SUP-005",
				Doc: "maximum number of restarts within window; the next failure quarantines the plugin",
			},
			{
				Name: "window", Type: dur(time.Second, day), Default: `"1m"`, Reload: ReloadUse, Serves: "SUP-005",
				Doc: "time span in which restarts are counted",
			},
			{
				Name: "backoff", Type: dur(0, day), Default: `"100ms"`, Reload: ReloadUse, Serves: "SUP-005",
				Doc: "delay before the first restart; doubles with each consecutive failure",
			},
			{
				Name: "max_backoff", Type: dur(0, day), Default: `"30s"`, Reload: ReloadUse, Serves: "SUP-005",
				Doc: "upper bound of the delay",
			},
			{
				Name: "jitter", Type: number01(), Default: `0.2`, Reload: ReloadUse, Serves: "SUP-005",
				Doc: "random variation of the delay, as a share in both directions",
			},
			{
				Name: "reset_after", Type: dur(0, longest), Default: `"5m"`, Reload: ReloadUse, Serves: "SUP-005",
				Doc: "uptime after which earlier failures are forgotten",
			},
		}},
		{Name: "health", Doc: "health probes of a process", Attrs: []Attr{
			{
				Name: "interval", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"5s"`, Reload: ReloadUse,
				Serves: "SUP-003",
				Doc:    "time between two probes",
			},
			{
				Name: "timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: `"1s"`, Reload: ReloadUse,
				Serves: "SUP-003",
				Doc:    "time limit of one probe",
			},
			{
				Name: "misses", Type: integer(1, 100), Default: `3`, Reload: ReloadUse, Serves: "SUP-003",
				Doc: "consecutive failed probes after which the process counts as unresponsive and is restarted",
			},
			{
				Name: "ready_timeout", Type: dur(time.Millisecond, day), Default: `"30s"`, Reload: ReloadUse,
				Serves: "SUP-003",
				Doc: "how long a configured plugin may take to report ready; a longer wait is reported, and " +
					"the process is not restarted",
			},
		}},
		{Name: "isolation", Doc: "sandbox of the process; its scratch directory is always accessible", Attrs: []Attr{
			{
				Name: "level", Type: enum("none", "limits", "strict"), Reload: ReloadPlugin, Serves: "ISO-003",
				Doc: "isolation level; default: the highest that the machine can enforce; a configured level that it " +
					"cannot enforce prevents the start of the plugin",
			},
			{
				Name: "best_effort", Type: boolean, Default: `false`, Reload: ReloadPlugin, Serves: "ISO-003",
				Doc: "start the plugin even if the machine cannot enforce part of the isolation",
			},
			{
				Name: "network", Type: networks, Default: `"none"`, Reload: ReloadPlugin, Serves: "FX-005, LM-002",
				Doc: "grants net/loopback (loopback) or net/connect (ports); TCP is restricted by port, " +
					"not by address",
			},
			{
				Name: "ports", Type: list(integer(1, 65535)), Default: `[]`, Reload: ReloadPlugin,
				Serves: "FX-005, LM-002",
				Doc: "TCP ports; default: the ports of the plugin's needs, or 443 if network = \"ports\" " +
					"and the needs list none",
			},
			{
				Name: "read_paths", Type: list(path), Default: `[]`, Reload: ReloadPlugin, Serves: "ISO-001, MLX-007",
				Doc: "grants fs/read on files, and on directories with everything below them",
			},
			{
				Name: "write_paths", Type: list(path), Default: `[]`, Reload: ReloadPlugin,
				Serves: "ISO-001, MLX-007",
				Doc:    "grants fs/write; a missing directory is created",
			},
			{
				Name: "exec", Type: list(runs), Default: `[]`, Reload: ReloadPlugin, Serves: "ISO-001, MLX-007",
				Doc: "grants process/run on programs, on directories of programs, and on names in PATH " +
					"together with the toolchain directory of the program",
			},
			{
				Name: "memory", Type: size(leastMemory, tib).orZero(), Default: `"8GiB"`, Reload: ReloadPlugin,
				Serves: "ISO-002",
				Doc:    "limit on the data memory of each process; 0: no limit",
			},
			{
				Name: "cpu", Type: Type{Kind: KindNum}.between(0.01, 1024).orZero(), Default: `0`, Reload: ReloadPlugin,
				Serves: "ISO-002",
				Doc:    "maximum number of processor cores; this build cannot enforce it on any machine",
			},
			{
				Name: "open_files", Type: integer(16, 1_000_000), Default: `1024`, Reload: ReloadPlugin,
				Serves: "ISO-002",
				Doc:    "maximum number of open file descriptors of each process",
			},
			{
				Name: "processes", Type: integer(leastProcesses, most).orZero(), Default: `0`, Reload: ReloadPlugin,
				Serves: "ISO-002",
				Doc: "maximum number of processes and threads of the user that runs the host, which must not be root; " +
					"0: no limit",
			},
			{
				Name: "file_size", Type: size(4*kib, tib).orZero(), Default: `"8GiB"`, Reload: ReloadPlugin,
				Serves: "ISO-002",
				Doc:    "maximum size of a file that a process writes; 0: no limit",
			},
		}},
		{Name: "swap", Doc: "replacement of the running plugin by a new version", Attrs: []Attr{
			{
				Name: "mode", Type: enum("direct", "shadow", "canary"), Default: `"direct"`, Reload: ReloadUse,
				Serves: "SUP-006",
				Doc: "direct: switch when the new version is ready; shadow: first judge its answers to copies of calls " +
					"without effects; canary: first send it a share of the calls",
			},
			{
				Name: "share", Type: Type{Kind: KindNum}.between(0.01, 0.5), Default: `0.1`, Reload: ReloadUse,
				Serves: "SUP-006",
				Doc:    "share of the calls that a version on trial receives",
			},
			{
				Name: "min_samples", Type: integer(1, most), Default: `20`, Reload: ReloadUse, Serves: "SUP-006",
				Doc: "judged answers after which a trial is decided",
			},
			{
				Name: "timeout", Type: dur(time.Second, day), Default: `"5m"`, Reload: ReloadUse, Serves: "SUP-006",
				Doc: "time limit of a trial; then the answers judged so far decide",
			},
		}},
		qualityBlock("answer quality in all intents that the plugin serves; the block of an intent overrides it"),
	},
}

var breakerBlock = Block{
	Name: "breaker",
	Doc:  "circuit breaker per capability and intent; the block of a capability overrides the block of the dispatch",
	Attrs: []Attr{
		{
			Name: "window", Type: integer(1, 10_000), Default: `20`, Reload: ReloadUse, Serves: "BRK-001, BRK-004",
			Doc: "number of latest outcomes in the failure rate",
		},
		{
			Name: "min_samples", Type: integer(1, 10_000), Default: `5`, Reload: ReloadUse,
			Serves: "BRK-001, BRK-005",
			Doc:    "outcomes needed before the failure rate can open the breaker",
		},
		{
			Name: "threshold", Type: Type{Kind: KindNum}.between(0.01, 1), Default: `0.5`, Reload: ReloadUse,
			Serves: "BRK-001, BRK-005",
			Doc:    "failure rate at which the breaker opens",
		},
		{
			Name: "base", Type: dur(time.Millisecond, day), Default: `"1s"`, Reload: ReloadUse,
			Serves: "BRK-001, BRK-005",
			Doc:    "how long the breaker stays open the first time",
		},
		{
			Name: "factor", Type: Type{Kind: KindNum}.between(1, 10), Default: `2`, Reload: ReloadUse,
			Serves: "BRK-001, BRK-005",
			Doc:    "multiplier of the open time for each consecutive opening",
		},
		{
			Name: "ceiling", Type: dur(time.Millisecond, day), Default: `"5m"`, Reload: ReloadUse,
			Serves: "BRK-001, BRK-005",
			Doc:    "upper bound of the open time",
		},
		{
			Name: "ramp", Type: list(integer(1, 100)), Default: `[10, 25, 50, 100]`, Reload: ReloadUse,
			Serves: "BRK-001, BRK-006",
			Doc:    "percentages of calls admitted in the stages after a successful probe; rising, the last is 100",
		},
	},
}

// qualityBlock returns the quality block of an intent or a plugin.
func qualityBlock(doc string) Block {
	return Block{Name: "quality", Doc: doc, Attrs: []Attr{
		{
			Name: "window", Type: integer(5, 10_000), Default: `20`, Reload: ReloadUse, Serves: "BRK-002, BRK-007",
			Doc: "number of latest verdicts in the pass rate",
		},
		{
			Name: "min_samples", Type: integer(1, 10_000), Default: `10`, Reload: ReloadUse,
			Serves: "BRK-002, BRK-008",
			Doc:    "verdicts needed before the pass rate is evaluated",
		},
		{
			Name: "min_pass_rate", Type: number01(), Default: `0`, Reload: ReloadUse, Serves: "BRK-002, BRK-008",
			Doc: "minimum share of answers that pass their gates; the action runs when the pass rate is " +
				"below it by more than the sampling error; 0: off",
		},
		{
			Name: "hysteresis", Type: Type{Kind: KindNum}.between(0, 0.5), Default: `0.1`, Reload: ReloadUse,
			Serves: "BRK-002, BRK-008",
			Doc:    "margin above min_pass_rate at which the capability counts as healthy again",
		},
		{
			Name: "action", Type: enum("swap", "restart", "quarantine"), Default: `"swap"`, Reload: ReloadUse,
			Serves: "BRK-002, BRK-009",
			Doc: "swap: replace the capability; restart: restart its processes; quarantine: eject it from " +
				"the candidates",
		},
		{
			Name: "swap_to", Type: ref("capability"), Reload: ReloadUse, Serves: "BRK-002, BRK-009",
			Doc: "capability that replaces it; default: the next version of its plugin, otherwise the " +
				"next candidate",
		},
		{
			Name: "max_ejected", Type: number01(), Default: `0.5`, Reload: ReloadUse, Serves: "BRK-002, BRK-010",
			Doc: "largest share of the candidates of an intent that may be ejected at once; the last one " +
				"is never ejected",
		},
	}}
}

var learnedBlock = Block{
	Name: "learned",
	Doc: "policy learned: order the candidates by how often their answers passed the gates, and now and then try another one " +
		"first; where calls have effects, or without a fallback, only by the means",
	Attrs: []Attr{
		{
			Name: "prior", Type: prior, Default: `[1, 1]`, Reload: ReloadUse, Serves: "LRN-002",
			Doc: "counts of passed and failed answers that every candidate starts with, or by capability those of single " +
				"candidates",
		},
		{
			Name: "explore", Type: number(0, 0.5), Default: `0.05`, Reload: ReloadUse, Serves: "LRN-002",
			Doc: "share of the calls whose first candidate is chosen at random",
		},
		{
			Name: "half_life", Type: dur(time.Hour, 365*day), Default: `"14d"`, Reload: ReloadUse, Serves: "LRN-005",
			Doc: "age at which an outcome counts half",
		},
		{
			Name: "cost_weight", Type: number(0, 10), Default: `0.2`, Reload: ReloadUse, Serves: "LRN-002",
			Doc: "how much the pass rate of the most expensive candidate is lowered against one without cost",
		},
		{
			Name: "latency_weight", Type: number(0, 10), Default: `0.1`, Reload: ReloadUse, Serves: "LRN-002",
			Doc: "how much the pass rate of the slowest candidate is lowered against one without delay",
		},
		{
			Name: "bucket", Type: enum("none", "size", "language"), Default: `"none"`, Reload: ReloadUse, Serves: "LRN-001",
			Doc: "feature by which the calls of an intent are divided into groups that learn separately: the size of the " +
				"input or its language",
		},
	},
}

var dispatchBlock = Block{
	Name: "dispatch", Label: LabelIdent,
	Doc: "retry, fallback and strategy of calls; other dispatch blocks inherit from \"default\"",
	Attrs: []Attr{
		{
			Name:    "policy",
			Type:    enum("declared", "quality-aware", "cost-first", "latency-first", "availability", "learned"),
			Default: `"declared"`, Reload: ReloadUse, Serves: "BIND-003",
			Doc: "order of the candidates",
		},
		{
			Name: "strategy", Type: enum("cascade", "race", "hedge", "tournament"), Default: `"cascade"`,
			Reload: ReloadUse, Serves: "ATT-004",
			Doc: "how the candidates are called: one after another, or several at once",
		},
		{
			Name: "switch_on", Type: set(switches), Reload: ReloadUse, Serves: "ATT-002, ATT-009",
			Doc: "errors that lead to a further attempt; added to the sets of lower layers",
		},
		{
			Name: "switch_on_replace", Type: set(switches), Reload: ReloadUse, Serves: "ATT-002, ATT-009",
			Doc: "errors that lead to a further attempt; replaces the sets of lower layers",
		},
		{
			Name: "fallback_to", Type: list(ref("capability")), Default: `[]`, Reload: ReloadUse, Serves: "BIND-001",
			Doc: "capabilities appended to the candidates",
		},
		{
			Name: "checks", Type: list(ref("check")), Default: `[]`, Reload: ReloadUse, Serves: "GATE-001",
			Doc: "checks that every answer must pass",
		},
		{
			Name: "deadline", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "ATT-006",
			Doc: "time limit of one call, over all attempts; without it the limit of the run applies: :deadline-ms of " +
				"the request, by default queue.deadline",
		},
	},
	Blocks: []Block{
		{Name: "retry", Doc: "limits and delays of further attempts", Attrs: []Attr{
			{
				Name: "same_capability", Type: integer(0, 16), Default: `0`, Reload: ReloadUse, Serves: "ATT-001",
				Doc: "maximum number of retries on the same candidate",
			},
			{
				Name: "fallback", Type: integer(0, 32), Default: `0`, Reload: ReloadUse, Serves: "ATT-001, BIND-004",
				Doc: "maximum number of further candidates after the first",
			},
			{
				Name: "backoff", Type: dur(0, day), Default: `"0s"`, Reload: ReloadUse, Serves: "ATT-009",
				Doc: "delay before the first retry",
			},
			{
				Name: "max_backoff", Type: dur(0, day), Default: `"10s"`, Reload: ReloadUse, Serves: "ATT-009",
				Doc: "upper bound of the delay",
			},
		}},
		{Name: "repair", Doc: "repair of an answer that failed its gates", Attrs: []Attr{
			{
				Name: "max", Type: integer(0, 8), Default: `0`, Reload: ReloadUse, Serves: "REP-001",
				Doc: "maximum number of repair attempts per candidate; each receives the findings",
			},
		}},
		{Name: "hedge", Doc: "strategy hedge: start another candidate if there is no output", Attrs: []Attr{
			{
				Name: "after", Type: dur(0, day), Default: `"0s"`, Reload: ReloadUse, Serves: "ATT-004, ATT-012",
				Doc: "time without output before the next candidate starts; 0s: the observed 95th " +
					"percentile of latency",
			},
			{
				Name: "max", Type: integer(1, 8), Default: `1`, Reload: ReloadUse, Serves: "ATT-004, ATT-012",
				Doc: "maximum number of further candidates",
			},
		}},
		{Name: "race", Doc: "strategy race: the first accepted answer wins", Attrs: []Attr{
			{
				Name: "width", Type: integer(2, 16), Default: `2`, Reload: ReloadUse, Serves: "ATT-004, ATT-011",
				Doc: "candidates that start at once",
			},
		}},
		{Name: "tournament", Doc: "strategy tournament: the accepted answer with the best score wins", Attrs: []Attr{
			{
				Name: "width", Type: integer(2, 16), Default: `2`, Reload: ReloadUse, Serves: "ATT-004, ATT-014",
				Doc: "candidates that start at once",
			},
		}},
		learnedBlock,
		breakerBlock,
	},
}

var intentBlock = Block{
	Name: "intent", Label: LabelQualified,
	Doc: "a request type: its schemas, the capabilities that serve it, and the gates of its answers",
	Attrs: []Attr{
		{
			Name: "in", Type: ref("schema"), Required: true, Reload: ReloadUse, Serves: "ENV-002",
			Doc: "schema of the input",
		},
		{
			Name: "out", Type: ref("schema"), Required: true, Reload: ReloadUse, Serves: "ENV-002",
			Doc: "schema of the answer",
		},
		{
			Name: "candidates", Type: list(ref("capability")).between(0, 64), Reload: ReloadUse, Serves: "BIND-001",
			Doc: "capabilities in order; default: all capabilities that serve the intent",
		},
		{
			Name: "dispatch", Type: ref("dispatch"), Default: `"default"`, Reload: ReloadUse, Serves: "ATT-001",
			Doc: "dispatch block of the calls",
		},
		{
			Name: "checks", Type: list(ref("check")), Default: `[]`, Reload: ReloadUse, Serves: "GATE-001",
			Doc: "checks that the answer must pass, in addition to the checks of the dispatch",
		},
		{
			Name: "effects", Type: set(enum(EffectNames...)), Default: `["none"]`, Reload: ReloadUse,
			Serves: "PRM-006, BIND-002",
			Doc:    "effects that calls of this intent may have",
		},
		{
			Name: "result_types", Type: set(enum("value", "plan", "stream")), Default: `["value"]`, Reload: ReloadUse,
			Serves: "BIND-002",
			Doc:    "kinds of result that a candidate may produce",
		},
		{
			Name: "role", Type: text, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "prompt role, a key of prompts.roles; overridden by the role of a capability or of a request",
		},
		{
			Name: "model_key", Type: text, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "model that plugins are asked for, a name or provider/name; overridden by that of a capability or of " +
				"a request",
		},
		{
			Name: "temperature", Type: Type{Kind: KindNum}.between(0, 2), Reload: ReloadUse, Serves: "RTE-003",
			Doc: "sampling temperature of language models; default: that of the model block, " +
				"otherwise that of its provider",
		},
		{
			Name: "constraints", Type: Type{Kind: KindMap}, Default: `{}`, Reload: ReloadUse, Serves: "PRM-006",
			Doc: "default constraints; constraints of the request override them",
		},
		{
			Name: "plan", Type: edntext, Reload: ReloadUse, Serves: "RTE-002",
			Doc: "plan of the acts of this intent, whose nodes read the request as :input and :context; default: one call",
		},
		{
			Name: "stream", Type: enum("gate-passed", "first-token", "provisional"), Default: `"gate-passed"`,
			Reload: ReloadUse, Serves: "GATE-005, STR-002",
			Doc: "when a client receives streamed text: gate-passed: after the answer is accepted; " +
				"first-token: as it is produced, then no other candidate is called; provisional: as it is " +
				"produced, retracted if the answer is rejected",
		},
		{
			Name: "deadline", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "RUN-006",
			Doc: "time limit of one call, over all attempts; without it the limit of the run applies: :deadline-ms of " +
				"the request, by default queue.deadline",
		},
		{
			Name: "queue_class", Type: ref("class"), Reload: ReloadUse, Serves: "RUN-011",
			Doc: "queue class of its runs, unless the request names one",
		},
		{
			Name: "cacheable", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "RUN-030, RUN-031",
			Doc: "whether an equal request may get the answer of an earlier one, if cache.enabled is true; its effects must " +
				"not go beyond reading",
		},
		{
			Name: "cache_scope", Type: enum("principal", "tenant", "public"), Default: `"principal"`,
			Reload: ReloadUse, Serves: "RUN-030",
			Doc: "whose requests share answers: those of one caller, of the callers of its tenant, or of all",
		},
		{
			Name: "on_unknown", Type: enum(UnknownSuspends, "fail", "retry", "assume-done"), Default: `"suspend"`,
			Reload: ReloadUse, Serves: "JRN-041",
			Doc: "a call of recovery class once whose outcome is unknown, after a crash or at its deadline: suspend: the " +
				"run waits for a decision; fail: its node fails; retry: its class is idempotent, so it is called again with the same effect key; " +
				"assume-done: its node goes on with an empty answer, if its schema accepts one; default: what the scopes of its effects say",
		},
	},
	Blocks: []Block{
		{Name: "done", Doc: "conditions for accepting an answer", Attrs: []Attr{
			{
				Name: "must", Type: list(ref("check")), Default: `["schema-valid"]`, Reload: ReloadUse,
				Serves: "GATE-001, LLM-024",
				Doc:    "checks that reject an answer; \"complete\" rejects one that the model ended at its token limit",
			},
			{
				Name: "should", Type: list(ref("check")), Default: `[]`, Reload: ReloadUse, Serves: "GATE-001",
				Doc: "checks that count only in the score",
			},
			{
				Name: "score_min", Type: number01(), Default: `0`, Reload: ReloadUse, Serves: "GATE-004",
				Doc: "minimum score of an accepted answer",
			},
		}},
		{Name: "judge", Doc: "the judge that grades answers after all other gates", Attrs: []Attr{
			{
				Name: "use", Type: ref("judge"), Reload: ReloadUse, Serves: "GATE-003, GATE-008",
				Doc: "judge block; default: no judge",
			},
			{
				Name: "severity", Type: enum("must", "should"), Default: `"should"`, Reload: ReloadUse,
				Serves: "GATE-008, JDG-005",
				Doc: "must: a grade below score_min rejects the answer; should: the grade only counts in " +
					"the score, as does that of an uncalibrated judge",
			},
		}},
		qualityBlock("what happens to a candidate whose answers often fail their gates"),
		{Name: "budget", Doc: "limits of one call, with all its attempts and checks; a request may lower them, and raise them with the operation budget/raise", Attrs: budgetAttrs("")},
		{Name: "prompt", Doc: "system prompt of language models", Attrs: []Attr{
			{
				Name: "system", Type: layered, Reload: ReloadUse, Serves: "PRM-001",
				Doc: "replaces all layers of prompts",
			},
			{
				Name: "addendum", Type: layered, Reload: ReloadUse, Serves: "PRM-001",
				Doc: "appended after the layers of prompts",
			},
		}},
		accessBlock,
	},
}

// networks is the type of isolation.network, with the words of other programs for its values.
var networks = Type{
	Kind: KindEnum,
	Enum: []string{"none", "loopback", "ports"},
	Means: map[string]string{
		"localhost": "loopback",
		"local":     "loopback",
		"internet":  "ports",
		"host":      "ports",
		"all":       "ports",
		"off":       "none",
	},
}
