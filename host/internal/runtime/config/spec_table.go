package config

import "time"

// Effects that a capability may declare and an operator may narrow.
var effectWords = []string{"none", "fs/read", "fs/write", "process/run", "net/http", "db/read", "db/write"}

var environment = Type{Kind: KindMap, Key: &variable, Elem: &text}

// Specification is the configuration language as one table. It drives
// decoding, defaults, the refusal of what a build lacks, and the reference.
// Callers must not change it.
func Specification() *Block { return &specification }

var specification = Block{Blocks: []Block{
	{
		Name: "ferment", Doc: "the host itself",
		Attrs: []Attr{
			{Name: "data_dir", Type: path, Default: `"var"`, Reload: ReloadHost, Serves: "OPS-002", Doc: "logs of plugins and the cache of their descriptions"},
			{Name: "lock_file", Type: path, Default: `"ferment.lock.hcl"`, Reload: ReloadHost, Serves: "LOCK-001", Doc: "which programs were approved, with what they may do"},
			{Name: "root", Type: path, Reload: ReloadHost, Serves: "RUN-008", Doc: "where relative paths in inputs start; default: the directory of the configuration"},
			{Name: "profile", Type: enum(Profiles()...), Default: `"prod"`, Reload: ReloadHost, Serves: "OPS-009", Doc: "which defaults and which files hold; --profile and FERMENT_PROFILE go before it; only in ferment.hcl and common/, with literals and env()"},
			{Name: "requires", Type: version, Reload: ReloadNothing, Serves: "WIRE-005", Doc: "versions of the host that may read this file"},
			{Name: "drain_timeout", Type: dur(0, 10*time.Minute), Default: `"25s"`, Reload: ReloadUse, Serves: "OPS-004", Doc: "for the runs in flight when the daemon goes down"},
			{Name: "reload_timeout", Type: dur(time.Second, 10*time.Minute), Default: `"60s"`, Reload: ReloadUse, Serves: "OPS-009, HCL-039", Doc: "for what a reload starts"},
			{Name: "auto_reload", Type: boolean, Default: `false`, Profiles: map[string]string{ProfileDev: `true`}, Reload: ReloadUse, Serves: "HCL-039", Doc: "reload when a file of the configuration changes"},
			{Name: "memory_limit", Type: size(0, tib), Default: `0`, Reload: ReloadHost, Serves: "OPS-010", Doc: "of the host, without its plugins; 0: chosen from machine and cgroup"},
			{Name: "gogc", Type: integer(0, 1000), Default: `0`, Reload: ReloadHost, Serves: "OPS-010", Doc: "growth of the heap before a collection in percent; 0: chosen by the host"},
			{Name: "max_runs", Type: integer(1, 100_000), Default: `1024`, Reload: ReloadUse, Serves: "RUN-011", Doc: "runs at the same time"},
			{Name: "max_depth", Type: integer(1, 64), Default: `16`, Reload: ReloadUse, Serves: "SCHED-005", Doc: "nested plans, maps and host calls of one run"},
			{Name: "max_nodes", Type: integer(1, 100_000), Default: `10000`, Reload: ReloadUse, Serves: "SCHED-005", Doc: "nodes of one run"},
			{Name: "max_parallel", Type: integer(1, 1024), Default: `8`, Reload: ReloadUse, Serves: "SCHED-001", Doc: "nodes of one plan that run at the same time"},
			{Name: "mode", Type: enum("strict", "lazy", "hybrid"), Default: `"hybrid"`, Reload: ReloadUse, Serves: "SCHED-001", Doc: "scheduling of plans that do not say"},
			{Name: "min_stability", Type: enum("experimental", "stable"), Default: `"experimental"`, Reload: ReloadUse, Serves: "ENV-010", Doc: "capabilities below it are not registered"},
			{Name: "seed", Type: integer(0, 1<<53-1), Default: `0`, Reload: ReloadUse, Serves: "IR-007", Doc: "of every run; 0: random"},
		},
	},
	{
		Name: "include", Label: LabelPattern, Doc: "reads other files just before this one; the label is a path, or a pattern, from the directory of this file",
		Attrs: []Attr{
			{Name: "optional", Type: boolean, Default: `false`, Reload: ReloadNothing, Serves: "HCL-016", Doc: "no file is no error; written out as true or false"},
		},
	},
	{Name: "locals", Open: true, Doc: "names for expressions, used as local.NAME"},
	pluginBlock,
	{
		Name: "capability", Label: LabelQualified, Doc: "narrows or renames one capability of a plugin",
		Attrs: []Attr{
			{Name: "plugin", Type: ref("plugin"), Required: true, Reload: ReloadUse, Serves: "ENV-010", Doc: "whose capability it is"},
			{Name: "provides", Type: text, Reload: ReloadUse, Serves: "ENV-010", Doc: "the advertised id, if the label renames it"},
			{Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "ENV-010"},
			{Name: "tags", Type: set(text), Reload: ReloadUse, Serves: "ENV-010", Doc: "instead of the advertised tags"},
			{Name: "effects", Type: set(enum(effectWords...)), Reload: ReloadUse, Serves: "ENV-010", Doc: "fewer than advertised"},
			{Name: "role", Type: text, Reload: ReloadUse, Serves: "RTE-003", Doc: "of prompts: a key of prompts.roles; before that of the intent"},
			{Name: "model_key", Type: text, Reload: ReloadUse, Serves: "RTE-003"},
		},
		Blocks: []Block{
			{Name: "cost", Doc: "what a call is expected to cost", Attrs: []Attr{
				{Name: "latency", Type: dur(0, day), Reload: ReloadUse, Serves: "ENV-010"},
				{Name: "usd", Type: Type{Kind: KindDec}.atLeast(0), Reload: ReloadUse, Serves: "ENV-010"},
			}},
			{Name: "limits", Doc: "lower than advertised", Attrs: []Attr{
				{Name: "timeout", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "ATT-006"},
				{Name: "max_in_flight", Type: integer(1, 10_000), Reload: ReloadUse, Serves: "ENV-010"},
			}},
			breakerBlock,
			scopeBlock("narrower than that of effects", true),
		},
	},
	{
		Name: "schema", Label: LabelQualified, Doc: "a named schema, instead of an advertised or built-in one of that name",
		Attrs: []Attr{
			{Name: "spec", Type: edntext, Required: true, Reload: ReloadUse, Serves: "SCH-006"},
			{Name: "doc", Type: text, Reload: ReloadUse, Serves: "SCH-006"},
		},
	},
	{
		Name: "check", Label: LabelIdent, Doc: "a named gate: exactly one of builtin, condition, intent",
		Attrs: []Attr{
			{Name: "builtin", Type: text, Reload: ReloadUse, Serves: "GATE-002", Doc: "name of a built-in check"},
			{Name: "condition", Type: cond, Reload: ReloadUse, Serves: "GATE-002", Doc: "true if the answer passes"},
			{Name: "intent", Type: ref("intent"), Reload: ReloadUse, Serves: "GATE-002", Doc: "asked for a verdict"},
			{Name: "applies", Type: cond, Reload: ReloadUse, Serves: "TXT-007", Doc: "false if there is nothing to judge"},
			{Name: "message", Type: Type{Kind: KindTemplate}, Reload: ReloadUse, Serves: "GATE-002", Doc: "of the finding"},
			{Name: "evidence", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "TXT-007", Doc: "fails where it cannot apply"},
			{Name: "params", Type: Type{Kind: KindMap}, Default: `{}`, Reload: ReloadUse, Serves: "GATE-009", Doc: "for the built-in, or merged into the input of the intent"},
			{Name: "timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: `"10s"`, Reload: ReloadUse, Serves: "GATE-009"},
		},
	},
	dispatchBlock,
	intentBlock,
	promptsBlock,
	judgeBlock,
	rubricBlock,
	effectsBlock,
	budgetBlock,
	roleBlock,
	httpBlock,
	{
		Name: "log", Doc: "what the daemon writes on standard error",
		Attrs: []Attr{
			{Name: "format", Type: enum(LogFormats()...), Default: `"auto"`, Reload: ReloadHost, Serves: "TEL-001", Doc: "aligned text, or a JSON object per line; auto: text on a terminal, else JSON"},
		},
	},
}}

// The formats of the log.
const (
	LogAuto = "auto"
	LogText = "text"
	LogJSON = "json"
)

// LogFormats are the formats of the log.
func LogFormats() []string { return []string{LogAuto, LogText, LogJSON} }

var pluginBlock = Block{
	Name: "plugin", Label: LabelIdent, Doc: "one process that serves capabilities",
	Attrs: []Attr{
		{Name: "command", Type: Type{Kind: KindList, Elem: &text, First: &programs}.between(1, 64), Required: true, Reload: ReloadPlugin, Serves: "SUP-001", Doc: "the program and its arguments; a relative program is below the directory of this file"},
		{Name: "files", Type: list(path).between(0, 256), Default: `[]`, Reload: ReloadPlugin, Serves: "LOCK-001, HCL-041", Doc: "what an interpreter in command runs"},
		{Name: "version", Type: version, Reload: ReloadUse, Serves: "LOCK-001", Doc: "versions of the plugin that are accepted"},
		{Name: "needs", Type: set(enum("net/connect", "net/loopback", "process/run", "process/self", "fs/read", "fs/write")), Reload: ReloadPlugin, Serves: "ENV-019, LOCK-001", Doc: "what the process may need; only less than the plugin says, which is the default"},
		{Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadPlugin, Serves: "OPS-001"},
		{Name: "optional", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "OPS-001", Doc: "the host works without it"},
		{Name: "env", Type: environment, Default: `{}`, Reload: ReloadPlugin, Serves: "SUP-001", Doc: "environment of the process, which is empty otherwise"},
		{Name: "env_pass", Type: list(variable), Default: `[]`, Reload: ReloadPlugin, Serves: "SUP-001", Doc: "variables taken over from the host"},
		{Name: "workdir", Type: path, Reload: ReloadPlugin, Serves: "ISO-001", Doc: "default: a scratch directory of its own; a plugin with files reads only these in it"},
		{Name: "start_timeout", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"10s"`, Reload: ReloadUse, Serves: "SUP-010"},
		{Name: "configure_timeout", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"10s"`, Reload: ReloadUse, Serves: "WIRE-002"},
		{Name: "stop_grace", Type: dur(0, 10*time.Minute), Default: `"2s"`, Reload: ReloadUse, Serves: "SUP-004"},
		{Name: "drain_timeout", Type: dur(0, 10*time.Minute), Default: `"10s"`, Reload: ReloadUse, Serves: "SUP-004"},
		{Name: "max_in_flight", Type: integer(1, 10_000), Reload: ReloadUse, Serves: "ENV-010", Doc: "calls at the same time; default: what the plugin says"},
		{Name: "queue", Type: integer(0, 10_000), Default: `32`, Reload: ReloadUse, Serves: "ENV-010", Doc: "calls that wait for a place"},
		{Name: "max_message", Type: size(64*kib, 16*mib), Reload: ReloadPlugin, Serves: "WIRE-003"},
		{Name: "encoding", Type: enum("edn", "json"), Reload: ReloadPlugin, Serves: "WIRE-003"},
		{Name: "mux", Type: boolean, Default: `true`, Reload: ReloadPlugin, Serves: "WIRE-007", Doc: "calls may share a stream, if the plugin has the feature"},
		{Name: "call_depth", Type: integer(1, 16), Default: `8`, Reload: ReloadUse, Serves: "WIRE-004", Doc: "calls that call each other through this plugin"},
		{Name: "log_level", Type: enum("trace", "debug", "info", "warn", "error"), Default: `"info"`, Reload: ReloadUse, Serves: "SUP-009"},
	},
	Blocks: []Block{
		{Name: "config", Foreign: true, Doc: "settings of the plugin, by its own schema"},
		{Name: "instances", Doc: "processes of the plugin", Attrs: []Attr{
			{Name: "min", Type: integer(0, 256), Default: `1`, Reload: ReloadUse, Serves: "SUP-007", Doc: "that take calls at all times; with 0 the first call starts one"},
			{Name: "max", Type: integer(1, 256), Default: `1`, Reload: ReloadUse, Serves: "SUP-007", Doc: "that take calls while calls wait"},
			{Name: "standby", Type: integer(0, 256), Default: `0`, Reload: ReloadUse, Serves: "SUP-007", Doc: "that are ready to take over and take no calls before"},
			{Name: "idle_ttl", Type: dur(0, longest), Default: `"0s"`, Reload: ReloadUse, Serves: "SUP-007", Doc: "how long one above min lives without a call; 0s: for ever"},
			{Name: "max_calls", Type: integer(0, most), Default: `0`, Reload: ReloadPlugin, Serves: "FX-003", Doc: "that one process answers before another replaces it; 0: no limit, 1: a process for each call"},
			{Name: "pin", Type: enum("none", "session"), Default: `"none"`, Reload: ReloadUse, Serves: "SES-003", Doc: "which calls go to the same process"},
		}},
		{Name: "restart", Doc: "what happens when the process ends by itself", Attrs: []Attr{
			{Name: "policy", Type: enum("on-failure", "always", "never"), Default: `"on-failure"`, Reload: ReloadUse, Serves: "SUP-005"},
			{Name: "max", Type: integer(0, 1000), Default: `5`, Reload: ReloadUse, Serves: "SUP-005", Doc: "restarts in one window before it is quarantined"},
			{Name: "window", Type: dur(time.Second, day), Default: `"1m"`, Reload: ReloadUse, Serves: "SUP-005"},
			{Name: "backoff", Type: dur(0, day), Default: `"100ms"`, Reload: ReloadUse, Serves: "SUP-005"},
			{Name: "max_backoff", Type: dur(0, day), Default: `"30s"`, Reload: ReloadUse, Serves: "SUP-005"},
			{Name: "jitter", Type: number01(), Default: `0.2`, Reload: ReloadUse, Serves: "SUP-005"},
			{Name: "reset_after", Type: dur(0, longest), Default: `"5m"`, Reload: ReloadUse, Serves: "SUP-005"},
		}},
		{Name: "health", Doc: "how the process is watched", Attrs: []Attr{
			{Name: "interval", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"5s"`, Reload: ReloadUse, Serves: "SUP-003"},
			{Name: "timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: `"1s"`, Reload: ReloadUse, Serves: "SUP-003"},
			{Name: "misses", Type: integer(1, 100), Default: `3`, Reload: ReloadUse, Serves: "SUP-003"},
			{Name: "ready_timeout", Type: dur(time.Millisecond, day), Default: `"30s"`, Reload: ReloadUse, Serves: "SUP-003"},
		}},
		{Name: "isolation", Doc: "what the kernel lets the process do, beside its own scratch directory", Attrs: []Attr{
			{Name: "level", Type: enum("none", "limits", "strict"), Reload: ReloadPlugin, Serves: "ISO-003", Doc: "default: the highest that the machine can hold; one that is written and cannot be held keeps the plugin from starting"},
			{Name: "best_effort", Type: boolean, Default: `false`, Reload: ReloadPlugin, Serves: "ISO-003", Doc: "what the machine cannot hold is left open"},
			{Name: "network", Type: networks, Default: `"none"`, Reload: ReloadPlugin, Serves: "FX-005, LM-002", Doc: "grants net/loopback and net/connect; TCP is held to ports, not to addresses"},
			{Name: "ports", Type: list(integer(1, 65535)), Default: `[]`, Reload: ReloadPlugin, Serves: "FX-005, LM-002", Doc: "of TCP; with none named those that the plugin says that it needs, and with network = \"ports\" 443 if it names none"},
			{Name: "read_paths", Type: list(path), Default: `[]`, Reload: ReloadPlugin, Serves: "ISO-001, MLX-007", Doc: "grants fs/read: files and directories with all below"},
			{Name: "write_paths", Type: list(path), Default: `[]`, Reload: ReloadPlugin, Serves: "ISO-001, MLX-007", Doc: "grants fs/write; a directory that does not exist is made"},
			{Name: "exec", Type: list(runs), Default: `[]`, Reload: ReloadPlugin, Serves: "ISO-001, MLX-007", Doc: "grants process/run: programs, directories of programs, names in PATH (with the toolchain that such a program lies in)"},
			{Name: "memory", Type: size(0, tib), Default: `"8GiB"`, Reload: ReloadPlugin, Serves: "ISO-002", Doc: "that each process may take for data; 0: no limit"},
			{Name: "cpu", Type: Type{Kind: KindNum}.between(0, 1024), Default: `0`, Reload: ReloadPlugin, Serves: "ISO-002", Doc: "processors; no machine can hold it with this build"},
			{Name: "open_files", Type: integer(16, 1_000_000), Default: `1024`, Reload: ReloadPlugin, Serves: "ISO-002"},
			{Name: "processes", Type: integer(0, most), Default: `0`, Reload: ReloadPlugin, Serves: "ISO-002", Doc: "of the user of the host, which must not be root; 0: no limit"},
			{Name: "file_size", Type: size(0, tib), Default: `"8GiB"`, Reload: ReloadPlugin, Serves: "ISO-002", Doc: "of a file that is written; 0: no limit"},
		}},
		{Name: "swap", Doc: "how another edition of the plugin takes over", Attrs: []Attr{
			{Name: "mode", Type: enum("direct", "shadow", "canary"), Default: `"direct"`, Reload: ReloadUse, Serves: "SUP-006", Doc: "at once, after it was asked beside the old one, or after it answered a share of the calls"},
			{Name: "share", Type: Type{Kind: KindNum}.between(0.01, 0.5), Default: `0.1`, Reload: ReloadUse, Serves: "SUP-006", Doc: "of the calls that go to an edition on trial"},
			{Name: "min_samples", Type: integer(1, most), Default: `20`, Reload: ReloadUse, Serves: "SUP-006", Doc: "judged answers that decide a trial"},
			{Name: "timeout", Type: dur(time.Second, day), Default: `"5m"`, Reload: ReloadUse, Serves: "SUP-006", Doc: "after which those that there are decide"},
		}},
		qualityBlock("for all intents that the plugin serves, below that of the intent"),
	},
}

var breakerBlock = Block{
	Name: "breaker", Doc: "when a capability that fails is left alone; of a capability: over that of the dispatch block",
	Attrs: []Attr{
		{Name: "window", Type: integer(1, 10_000), Default: `20`, Reload: ReloadUse, Serves: "BRK-001, BRK-004", Doc: "outcomes that the rate is taken over"},
		{Name: "min_samples", Type: integer(1, 10_000), Default: `5`, Reload: ReloadUse, Serves: "BRK-001, BRK-005", Doc: "without which the rate does not count"},
		{Name: "threshold", Type: Type{Kind: KindNum}.between(0.01, 1), Default: `0.5`, Reload: ReloadUse, Serves: "BRK-001, BRK-005", Doc: "share of failures that opens"},
		{Name: "base", Type: dur(time.Millisecond, day), Default: `"1s"`, Reload: ReloadUse, Serves: "BRK-001, BRK-005", Doc: "the first pause"},
		{Name: "factor", Type: Type{Kind: KindNum}.between(1, 10), Default: `2`, Reload: ReloadUse, Serves: "BRK-001, BRK-005", Doc: "by which each pause in a row is longer"},
		{Name: "ceiling", Type: dur(time.Millisecond, day), Default: `"5m"`, Reload: ReloadUse, Serves: "BRK-001, BRK-005", Doc: "of the pauses"},
		{Name: "ramp", Type: list(integer(1, 100)), Default: `[10, 25, 50, 100]`, Reload: ReloadUse, Serves: "BRK-001, BRK-006", Doc: "shares in percent that are let through on the way back, rising to 100"},
	},
}

// qualityBlock is that of an intent and of a plugin.
func qualityBlock(doc string) Block {
	return Block{Name: "quality", Doc: doc, Attrs: []Attr{
		{Name: "window", Type: integer(5, 10_000), Default: `20`, Reload: ReloadUse, Serves: "BRK-002, BRK-007", Doc: "verdicts that the rate is taken over"},
		{Name: "min_samples", Type: integer(1, 10_000), Default: `10`, Reload: ReloadUse, Serves: "BRK-002, BRK-008", Doc: "without which the rate does not count"},
		{Name: "min_pass_rate", Type: number01(), Default: `0`, Reload: ReloadUse, Serves: "BRK-002, BRK-008", Doc: "share of answers that pass their gates; clearly below it the action is taken; 0: never"},
		{Name: "hysteresis", Type: Type{Kind: KindNum}.between(0, 0.5), Default: `0.1`, Reload: ReloadUse, Serves: "BRK-002, BRK-008", Doc: "above min_pass_rate it is well again"},
		{Name: "action", Type: enum("swap", "restart", "quarantine"), Default: `"swap"`, Reload: ReloadUse, Serves: "BRK-002, BRK-009", Doc: "put another in its place, start its processes anew, or leave it out"},
		{Name: "swap_to", Type: ref("capability"), Reload: ReloadUse, Serves: "BRK-002, BRK-009", Doc: "who takes its place; default: the next edition of its plugin, and if there is none the next candidate"},
		{Name: "max_ejected", Type: number01(), Default: `0.5`, Reload: ReloadUse, Serves: "BRK-002, BRK-010", Doc: "share of the candidates of an intent that may be left out at once; never the last one"},
	}}
}

var dispatchBlock = Block{
	Name: "dispatch", Label: LabelIdent, Doc: "how calls are retried and handed on; the block \"default\" lies below all others",
	Attrs: []Attr{
		{Name: "policy", Type: enum("declared", "quality-aware", "cost-first", "latency-first", "availability", "learned"), Default: `"declared"`, Reload: ReloadUse, Serves: "BIND-003", Doc: "order of the candidates"},
		{Name: "strategy", Type: enum("cascade", "race", "hedge", "tournament"), Default: `"cascade"`, Reload: ReloadUse, Serves: "ATT-004", Doc: "how candidates are tried"},
		{Name: "switch_on", Type: set(switches), Reload: ReloadUse, Serves: "ATT-002, ATT-009", Doc: "failures after which another try is made; added to those of weaker layers"},
		{Name: "switch_on_replace", Type: set(switches), Reload: ReloadUse, Serves: "ATT-002, ATT-009", Doc: "the same, instead of those of weaker layers"},
		{Name: "fallback_to", Type: list(ref("capability")), Default: `[]`, Reload: ReloadUse, Serves: "BIND-001", Doc: "appended to the candidates"},
		{Name: "checks", Type: list(ref("check")), Default: `[]`, Reload: ReloadUse, Serves: "GATE-001", Doc: "that every answer must pass"},
		{Name: "deadline", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "ATT-006", Doc: "of one call with all its attempts"},
	},
	Blocks: []Block{
		{Name: "retry", Doc: "how often and how soon", Attrs: []Attr{
			{Name: "same_capability", Type: integer(0, 16), Default: `0`, Reload: ReloadUse, Serves: "ATT-001", Doc: "further tries of one candidate"},
			{Name: "fallback", Type: integer(0, 32), Default: `0`, Reload: ReloadUse, Serves: "ATT-001, BIND-004", Doc: "further candidates"},
			{Name: "backoff", Type: dur(0, day), Default: `"0s"`, Reload: ReloadUse, Serves: "ATT-009"},
			{Name: "max_backoff", Type: dur(0, day), Default: `"10s"`, Reload: ReloadUse, Serves: "ATT-009"},
		}},
		{Name: "repair", Doc: "of an answer that its gates refused", Attrs: []Attr{
			{Name: "max", Type: integer(0, 8), Default: `0`, Reload: ReloadUse, Serves: "REP-001", Doc: "how often one candidate is told what was wrong"},
		}},
		{Name: "hedge", Doc: "strategy hedge: who joins a candidate that is silent", Attrs: []Attr{
			{Name: "after", Type: dur(0, day), Default: `"0s"`, Reload: ReloadUse, Serves: "ATT-004, ATT-012", Doc: "of silence; 0s: as long as all but one of twenty calls take"},
			{Name: "max", Type: integer(1, 8), Default: `1`, Reload: ReloadUse, Serves: "ATT-004, ATT-012", Doc: "further candidates"},
		}},
		{Name: "race", Doc: "strategy race: the first accepted answer wins", Attrs: []Attr{
			{Name: "width", Type: integer(2, 16), Default: `2`, Reload: ReloadUse, Serves: "ATT-004, ATT-011", Doc: "candidates that start together"},
		}},
		{Name: "tournament", Doc: "strategy tournament: the best answer wins", Attrs: []Attr{
			{Name: "width", Type: integer(2, 16), Default: `2`, Reload: ReloadUse, Serves: "ATT-004, ATT-014", Doc: "candidates that are asked"},
		}},
		{Name: "learned"},
		breakerBlock,
	},
}

var intentBlock = Block{
	Name: "intent", Label: LabelQualified, Doc: "what callers may ask for, who may serve it, which gates the answer must pass",
	Attrs: []Attr{
		{Name: "in", Type: ref("schema"), Required: true, Reload: ReloadUse, Serves: "ENV-002", Doc: "schema of the input"},
		{Name: "out", Type: ref("schema"), Required: true, Reload: ReloadUse, Serves: "ENV-002", Doc: "schema of the answer"},
		{Name: "candidates", Type: list(ref("capability")).between(0, 64), Reload: ReloadUse, Serves: "BIND-001", Doc: "in order; default: those that serve the intent"},
		{Name: "dispatch", Type: ref("dispatch"), Default: `"default"`, Reload: ReloadUse, Serves: "ATT-001"},
		{Name: "checks", Type: list(ref("check")), Default: `[]`, Reload: ReloadUse, Serves: "GATE-001", Doc: "that the answer must pass, besides those of the dispatch"},
		{Name: "effects", Type: set(enum(effectWords...)), Default: `["none"]`, Reload: ReloadUse, Serves: "PRM-006, BIND-002", Doc: "that an act of this intent may have"},
		{Name: "result_types", Type: set(enum("value", "plan", "stream")), Default: `["value"]`, Reload: ReloadUse, Serves: "BIND-002"},
		{Name: "role", Type: text, Reload: ReloadUse, Serves: "RTE-003", Doc: "of prompts: a key of prompts.roles; below that of a capability and of a request"},
		{Name: "model_key", Type: text, Reload: ReloadUse, Serves: "RTE-003"},
		{Name: "temperature", Type: Type{Kind: KindNum}.between(0, 2), Reload: ReloadUse, Serves: "RTE-003", Doc: "that models are asked for; default: that of the model's own block, else of its provider"},
		{Name: "constraints", Type: Type{Kind: KindMap}, Default: `{}`, Reload: ReloadUse, Serves: "PRM-006", Doc: "below those of the request"},
		{Name: "plan", Type: edntext, Reload: ReloadUse, Serves: "RTE-002"},
		{Name: "stream", Type: enum("gate-passed", "first-token", "provisional"), Default: `"gate-passed"`, Reload: ReloadUse, Serves: "GATE-005, STR-002", Doc: "when text is shown to who streams the answer: once it is accepted, as it comes for good, or as it comes until it is taken back"},
		{Name: "deadline", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "RUN-006", Doc: "of one call with all its attempts"},
		{Name: "queue_class", Type: ref("class"), Reload: ReloadUse, Serves: "RUN-011"},
		{Name: "cacheable", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "RUN-030"},
		{Name: "cache_scope", Type: enum("principal", "tenant", "public"), Default: `"principal"`, Reload: ReloadUse, Serves: "RUN-031"},
		{Name: "on_unknown", Type: enum("suspend", "fail", "retry", "assume-done"), Default: `"suspend"`, Reload: ReloadUse, Serves: "JRN-041"},
	},
	Blocks: []Block{
		{Name: "done", Doc: "when an answer is accepted", Attrs: []Attr{
			{
				Name: "must", Type: list(ref("check")), Default: `["schema-valid"]`, Reload: ReloadUse, Serves: "GATE-001, LLM-024",
				Doc: "checks that refuse an answer; \"complete\" refuses one whose model stopped at its limit of tokens",
			},
			{Name: "should", Type: list(ref("check")), Default: `[]`, Reload: ReloadUse, Serves: "GATE-001", Doc: "counted in the score"},
			{Name: "score_min", Type: number01(), Default: `0`, Reload: ReloadUse, Serves: "GATE-004"},
		}},
		{Name: "judge", Doc: "who grades the answers, after all other gates", Attrs: []Attr{
			{Name: "use", Type: ref("judge"), Reload: ReloadUse, Serves: "GATE-003, GATE-008"},
			{Name: "severity", Type: enum("must", "should"), Default: `"should"`, Reload: ReloadUse, Serves: "GATE-008, JDG-005", Doc: "whether a grade below score_min refuses the answer by itself, or only counts in the score; a judge that was not calibrated only counts"},
		}},
		qualityBlock("when candidates whose answers fail their gates are acted on"),
		{Name: "budget", Doc: "what one call of the intent may spend, with all its attempts and checks; a caller may only ask for less", Attrs: budgetAttrs("")},
		{Name: "prompt", Doc: "what language models are told beside the layers of prompts", Attrs: []Attr{
			{Name: "system", Type: layered, Reload: ReloadUse, Serves: "PRM-001", Doc: "instead of all layers of prompts"},
			{Name: "addendum", Type: layered, Reload: ReloadUse, Serves: "PRM-001", Doc: "below them"},
		}},
		{Name: "access"},
	},
}

// networks are what a plugin may reach; others call this the same by other names.
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
