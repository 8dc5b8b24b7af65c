package conformance

// Requirement is one rule for plugins. Within one protocol revision a
// requirement is neither changed nor removed; new ones get new ids.
type Requirement struct {
	// ID is the subject and a number from 001.
	ID string
	// Profile is the profile that the requirement belongs to.
	Profile string
	// Spec are the rules of the specification that it is derived from.
	Spec []string
	// Text is the requirement in one sentence.
	Text string
}

// Requirements returns every requirement of protocol revision 1, in the order
// of a plugin's life.
func Requirements() []Requirement {
	var all []Requirement
	all = append(all, startRequirements()...)
	all = append(all, lifeRequirements()...)
	all = append(all, callRequirements()...)
	all = append(all, endRequirements()...)
	all = append(all, optionalRequirements()...)
	all = append(all, kindRequirements()...)
	return all
}

// requirementOf returns the requirement with an id.
func requirementOf(id string) (Requirement, bool) {
	for _, r := range Requirements() {
		if r.ID == id {
			return r, true
		}
	}
	return Requirement{}, false
}

// must returns a requirement; the rules of the specification come last.
func must(profile, id, text string, spec ...string) Requirement {
	return Requirement{ID: id, Profile: profile, Spec: spec, Text: text}
}

func startRequirements() []Requirement {
	return []Requirement{
		must(profileCore, "START-001", "Started by a host, the program answers with one handshake line and serves gRPC over mutual TLS on a unix socket in the directory that the host named.", "WIRE-001"),
		must(profileCore, "START-002", "Started by hand, the program says in one sentence what it is and exits with 2.", "WIRE-001"),
		must(profileCore, "START-003", "To a host of another protocol revision the program offers a revision that it speaks, or it ends with a failure and a sentence that says which side is older.", "WIRE-005"),
		must(profileCore, "START-004", "A peer without the certificate of the host cannot call the plugin.", "WIRE-001"),
		must(profileCore, "START-005", "Standard output carries the handshake line and nothing else; what the plugin has to say goes to standard error.", "SUP-001", "SUP-009"),
		must(profileCore, "START-006", "A new instance serves in the directory in which an earlier one was killed.", "SUP-005"),
		must(profileCore, "START-007",
			"The directory of the sockets has at most 64 files with together 1048576 bytes, however many calls there were.",
			"WIRE-002"),
		must(profileCore, "LOG-001", "A line of the log has at most 131072 bytes.", "SUP-009"),
	}
}

func lifeRequirements() []Requirement {
	return []Requirement{
		must(profileCore, "DESCRIBE-001", "Describe works before Configure and without a configuration, and then gives the name, the version and, if the plugin takes a configuration, its schema.", "WIRE-002", "ENV-010"),
		must(profileCore, "DESCRIBE-002", "Describe is a pure function of the binary and the configuration.", "WIRE-002", "ENV-010"),
		must(profileCore, "DESCRIBE-003", "Describe gives at least one capability for the configuration, and the metadata of each is complete and well typed.", "ENV-010", "ENV-011", "ENV-017", "ENV-019"),
		must(profileCore, "DESCRIBE-004", "A configuration that the schema does not allow is answered with findings.", "SDK-002", "WIRE-002"),
		must(profileCore, "DESCRIBE-005", "Every schema that a capability names is built in or comes with the description, and can be read.", "SCH-006", "SCH-008", "SCH-014"),
		must(profileCore, "CONFIGURE-001", "Configure serves what Describe announced for the same configuration.", "WIRE-002", "ENV-010"),
		must(profileCore, "CONFIGURE-002", "Configure answers a configuration that it refuses with findings that have the path of the value at fault, and the process lives on.", "SDK-002", "WIRE-002"),
		must(profileCore, "CONFIGURE-003", "A second Configure is refused, and the plugin goes on as it was.", "WIRE-002"),
		must(profileCore, "SECRET-001",
			"A secret of the configuration is in no line of the log, no error, no answer and no state of the plugin.",
			"ISO-005", "ERR-007"),
		must(profileCore, "HEALTH-001", "Health sends the current state at once, and a probe ends after one state.", "WIRE-002", "SUP-003"),
		must(profileCore, "HEALTH-002", "A configured plugin becomes ready, or says in a sentence why it is not.", "SUP-003"),
		must(profileCore, "HEALTH-003", "A plugin that is not configured or is draining does not call itself ready.", "SUP-003"),
		must(profileCore, "HEALTH-004", "What Health says of single capabilities, if it does, is about capabilities that the plugin serves, with a reason where one is not ready.", "SUP-003", "MLX-009"),
		must(profileCore, "HEALTH-005",
			"A plugin or a capability that becomes degraded or not ready later says in a sentence why.",
			"SUP-003", "MLX-009"),
		must(profileCore, "HEALTH-006",
			"An open Health stream sends each change of the state.",
			"WIRE-002", "SUP-003"),
		must(profileCore, "HEALTH-007",
			"Health probes leave nothing behind: descriptors, threads and memory of the process stay within bounds however many probes there were.",
			"SUP-003"),
		must(profileCore, "HEALTH-008",
			"The number of crashes that a capability reports does not decrease while the process runs.",
			"SUP-003", "MLX-009"),
		must(profileCore, "LIFE-001", "A call before Configure is refused with a typed error.", "WIRE-002"),
		must(profileCore, "LIFE-002", "EndRun succeeds for every run, also for one that the plugin never saw.", "WIRE-002"),
		must(profileCore, "LIFE-003", "A process that was stopped for a while and goes on answers as before.", "SUP-003", "SUP-004"),
		must(profileCore, "LIFE-004",
			"EndRun changes nothing for later calls, neither of other runs nor of the run that ended.", "WIRE-002", "ENV-010"),
	}
}

func callRequirements() []Requirement {
	return []Requirement{
		must(profileCore, "CALL-001", "Every call ends in exactly one result or one typed error, and its events count from 1 without gaps.", "WIRE-002"),
		must(profileCore, "CALL-002", "A result is a response envelope whose type the capability declares.", "ENV-004", "ENV-013", "ENV-014"),
		must(profileCore, "CALL-003", "The output of a value fits the output schema that the capability advertises for the intent.", "ENV-013", "SCH-001"),
		must(profileCore, "CALL-004", "An input of a wrong shape is answered or refused with a typed error, and the plugin lives on.", "SDK-002", "ENV-002"),
		must(profileCore, "CALL-005", "A call of a capability that the plugin does not have is a typed error.", "ERR-005"),
		must(profileCore, "CALL-006", "A call whose caller goes away stops working.", "WIRE-002", "SDK-001"),
		must(profileCore, "CALL-007", "A call whose deadline passes stops working.", "WIRE-004", "SDK-001"),
		must(profileCore, "CALL-008", "Calls at the same time do not disturb one another: each is answered, or refused as overloaded.", "WIRE-002", "ENV-010"),
		must(profileCore, "CALL-009", "Calls leave nothing behind: descriptors, threads and memory of the process stay within bounds however many calls there were.", "CONF-004"),
		must(profileCore, "CALL-010", "A capability that calls itself deterministic answers equal requests alike.", "ENV-010"),
		must(profileCore, "CALL-011", "A call that is cancelled gives back what it held: however many were cancelled, the next is answered.", "WIRE-002", "SDK-001"),
		must(profileCore, "CALL-012",
			"The :usage of an answer of any kind of capability is well formed: a known :mode, counts from 0, and an exact cost.",
			"ENV-004", "LM-003"),
		must(profileCore, "CALL-013",
			"The answer of a call depends on its own input, not on earlier answers of the same run or trace.",
			"ENV-010", "WIRE-002"),
		must(profileCore, "CALL-014",
			"A call that is cancelled or whose deadline passes uses no processor time any more, in no process of the plugin.",
			"WIRE-002", "SDK-001"),
		must(profileCore, "CALL-015",
			"A process that a call starts ends with the call or is used again: their number stays within bounds.",
			"SUP-004", "CONF-004"),
		must(profileCore, "ERROR-001", "An error has a type, a keyword, out of the catalogue or in a namespace of the plugin's own, and at most one sentence of 500 characters.", "ERR-005", "ERR-007"),
		must(profileCore, "ERROR-002", "The details of an error, with those of its causes, have at most 262144 bytes.",
			"WIRE-003"),
		must(profileCore, "PAYLOAD-001", "A request that cannot be read is answered with an error event, and the plugin lives on.", "VAL-002", "VAL-015", "VAL-018", "WIRE-003"),
		must(profileCore, "PAYLOAD-002", "A request that is no envelope is answered with an error event.", "ENV-013", "ERR-005"),
		must(profileCore, "PAYLOAD-003", "A reference to a text beside the payload is put in its place; one without its text, or with a text of another hash, is answered with an error event.", "WIRE-003"),
		must(profileCore, "PAYLOAD-004", "Requests of several megabytes arrive.", "WIRE-003"),
		must(profileCore, "PAYLOAD-005", "A message above 16 MiB is refused, and the plugin lives on.", "WIRE-003"),
		must(profileCore, "PAYLOAD-006", "An answer is in the encoding of the question, and a question in an unknown encoding is answered with an error event.", "WIRE-003"),
		must(profileCore, "PAYLOAD-007", "Keys of an envelope that the plugin does not know change nothing.", "WIRE-005", "ENV-021"),
	}
}

func endRequirements() []Requirement {
	return []Requirement{
		must(profileCore, "DRAIN-001", "After Drain the plugin refuses calls with a typed error.", "WIRE-002", "SUP-004"),
		must(profileCore, "DRAIN-002", "Drain returns at its deadline with the number of calls that were not over, and those stop.", "WIRE-002", "SUP-004"),
		must(profileCore, "DRAIN-003", "Calls that are in flight when Drain comes end as they would have ended, as far as its deadline allows.", "WIRE-002", "SUP-006"),
		must(profileCore, "END-001", "The process ends when standard input closes.", "SUP-001", "SUP-004"),
		must(profileCore, "END-002", "The process ends when standard input closes also while a call is in flight.", "SUP-004"),
		must(profileCore, "END-003", "The process ends when it is asked to by SIGTERM.", "SUP-004"),
		must(profileCore, "END-004", "The process exits with 0 when standard input closes.", "SUP-001", "SUP-004"),
		must(profileCore, "END-005", "The process ignores SIGINT.", "SUP-004"),
	}
}

func optionalRequirements() []Requirement {
	return []Requirement{
		must(profileStreaming, "STREAM-001", "A capability that says that it streams sends at least one delta before its answer.", "ENV-010", "LLM-010"),
		must(profileStreaming, "STREAM-002", "The deltas of a call are maps with a :kind and count from 1 in :seq without gaps.", "LLM-011"),
		must(profileStreaming, "STREAM-003", "The texts of the deltas of kind :text, one after the other, are the text of the answer.", "LLM-011", "ENV-014"),
		must(profileStreaming, "STREAM-004", "A call that is cancelled between two deltas stops working.", "LLM-017", "WIRE-002"),
		must(profileHostCalls, "HOSTCALL-001", "A call to the host carries the handle of the call that it is made for.", "WIRE-004"),
		must(profileHostCalls, "HOSTCALL-002", "A call to the host has the stack of its caller with the calling capability at the end.", "WIRE-004"),
		must(profileHostCalls, "HOSTCALL-003", "A call to the host has no later deadline and no larger budget than the call that it is made for.", "WIRE-004"),
		must(profileHostCalls, "HOSTCALL-004", "An error of the host leads to an answer or to a typed error.", "ERR-005"),
		must(profileHostCalls, "HOSTCALL-005", "A call to the host is cancelled when the call that it is made for is.", "WIRE-002", "WIRE-004"),
		must(profileMux, "MUX-002", "Calls that share one stream end as calls with a stream of their own do.", "WIRE-007"),
		must(profileMux, "MUX-003", "A call on the stream that is cancelled ends by itself: the others go on.", "WIRE-007"),
		must(profileHotSwap, "SWAP-001", "Two instances with one configuration serve side by side.", "SUP-006"),
		must(profileHotSwap, "SWAP-002", "While an instance drains, the one beside it answers.", "SUP-006"),
	}
}

func kindRequirements() []Requirement {
	return []Requirement{
		must(profileLLM, "MODEL-001", "A model answers with text or calls of tools; having neither is an error and no answer.", "LLM-014", "LM-008"),
		must(profileLLM, "MODEL-002", "The answer of a model says what was used: a known :mode, token counts that are not negative, and an exact cost.", "ENV-004", "LM-003", "LLM-020"),
		must(profileLLM, "MODEL-003", "The answer of a model says how it finished.", "LLM-014", "SCH-006"),
		must(profileLLM, "MODEL-004", "Asking a model changes nothing: its capability has no effects.", "ENV-019"),
		must(profileJudge, "JUDGE-001", "A verdict has a :score, a number from 0 to 1.", "SCH-006", "JDG-003"),
		must(profileJudge, "JUDGE-002", "What a verdict says beside the score is well formed: :violations is a collection, :retry? a boolean, :criteria a map of numbers from 0 to 1.", "SCH-006", "JDG-003"),
		must(profileJudge, "JUDGE-003", "A judge that has nothing to judge answers with a typed error, not with a score.", "JDG-005"),
		must(profileChecker, "CHECKER-001", "A check answers with a boolean verdict, findings, or both.", "GATE-009"),
		must(profileChecker, "CHECKER-002", "Findings are a collection of texts or of maps with a :message.", "GATE-002", "GATE-009"),
		must(profileChecker, "CHECKER-003", "A check takes the question and the answer that it judges beside its own input and comes to the same verdict.", "GATE-009"),
		must(profileChecker, "CHECKER-004", "A check changes nothing: its capability has no effect beyond reading.", "GATE-009"),
		must(profileSolver, "SOLVER-001", "A solver refuses an input that does not fit its schema as the fault of the request, which nobody need try again.", "ERR-001", "SCH-001"),
		must(profileSolver, "SOLVER-002", "A solver refuses one malformed input always alike.", "ERR-001"),
		must(profileSolver, "SOLVER-003", "A search that is cancelled stops burning the processor.", "SDK-001", "WIRE-002"),
		must(profileTool, "TOOL-001", "A tool answers every intent that it serves with a value.", "ENV-004", "ENV-010"),
		must(profileTool, "TOOL-002", "A recovery rule looks at a part of the input that the input schema has.", "ENV-024"),
		must(profileTool, "TOOL-003", "A tool that calls itself idempotent answers two calls with one effect key alike.", "ENV-010", "JRN-041"),
		must(profileAgent, "AGENT-001", "An agent answers with the messages that it adds, each with a role, and says why it stopped.", "CNV-013"),
		must(profileAgent, "AGENT-002", "An agent whose model asks for tools without end stops at a bound and says so.", "CNV-011", "CNV-012"),
	}
}
