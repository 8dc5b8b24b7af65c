package contract

// runErrors are the failures of the queue, of runs, their streams and records.
func runErrors() []Row {
	return []Row{
		row("queue/disabled", ClassFinal, SourceHost, false, 503,
			"this daemon takes no accepted requests", "ask for :response/type :value"),
		row("queue/job-not-found", ClassFinal, SourceRequest, false, 404, "there is no such job", "`ferment runs list` lists the runs"),
		row("queue/invalid-transition", ClassFinal, SourceRequest, false, 409,
			"the job is in no state that allows this", "the status of the job says where it is"),
		row("queue/deadline-exceeded", ClassFinal, SourceRequest, false, 504,
			"the job passed its deadline", "allow more time with :deadline-ms"),

		row("run/not-found", ClassFinal, SourceRequest, false, 404, "there is no such run", "`ferment runs list` lists the runs"),
		row("run/suspended", ClassFinal, SourceRequest, false, 409,
			"the run waits for a decision", "`ferment runs show` lists the open questions"),
		row("run/secret-missing", ClassStop, SourceHost, true, 409, "the run needs a secret of which the journal keeps only a hash",
			"send the request again with its idempotency key"),
		row("run/poison", ClassFinal, SourceRequest, false, 409,
			"the run was active in several crashes of the host and is held back", "`ferment runs show` has its history"),
		row("run/restored", ClassFinal, SourceRequest, false, 409, "the run came back from a backup, and its original may still be executed",
			"`ferment runs resume` continues it here, `ferment runs cancel` ends it"),
		row("run/not-resumable", ClassFinal, SourceRequest, false, 409, "the run cannot be resumed", "`ferment runs show` says why"),
		row("run/decision-required", ClassFinal, SourceRequest, false, 409,
			"the run needs a decision for each open question", "`ferment runs show` lists them"),
		row("run/evaluator-unknown", ClassFinal, SourceRequest, false, 409,
			"the run was recorded by an evaluator that this host does not have", "resume it with the version in the details"),
		row("run/decision-invalid", ClassFinal, SourceRequest, false, 422,
			"the decision does not fit the question", "`ferment runs show` lists what may be decided"),

		row("interrupt/not-found", ClassFinal, SourceRequest, false, 404,
			"there is no such open interrupt", "`ferment runs interrupts` lists them"),
		row("interrupt/answered", ClassFinal, SourceRequest, false, 409,
			"the interrupt was answered before", "`ferment runs interrupts` lists the open ones"),
		row("interrupt/answer-invalid", ClassFinal, SourceRequest, false, 422,
			"the answer does not fit the schema of the interrupt", "the details have the schema"),
		row("interrupt/unanswered", ClassStop, SourceDownstream, false, 504,
			"no person answered until the deadline of the interrupt", "allow more time, or set on_deadline in the block human"),

		row("idempotency/invalid-key", ClassFinal, SourceRequest, false, 400,
			"the idempotency key is malformed or given twice", "use 1 to 128 visible ASCII characters"),
		row("idempotency/mismatch", ClassFinal, SourceRequest, false, 422,
			"the idempotency key was used for another request", "use one key for one request"),
		row("idempotency/exhausted", ClassFinal, SourceRequest, false, 409,
			"the run behind the idempotency key failed for good", "use a new key"),

		row("stream/bad-cursor", ClassFinal, SourceRequest, false, 400,
			"the cursor belongs to another run or is malformed", "connect without the cursor"),
		row("stream/cursor-ahead", ClassFinal, SourceRequest, false, 409,
			"the cursor is beyond the last event", "connect without the cursor"),
		row("stream/gone", ClassFinal, SourceRequest, false, 410, "the events are no longer kept", "connect without the cursor"),
		row("stream/too-many-subscribers", ClassFinal, SourceRequest, true, 429,
			"the run has as many readers as it may have", "try again later"),

		row("journal/unavailable", ClassFinal, SourceHost, true, 503,
			"the journal cannot record",
			"try again later; if the message names a run, `ferment runs show` tells what it did"),
		row("journal/full", ClassFinal, SourceHost, true, 503,
			"the journal has no room", "free space in the data directory"),
		row("journal/fenced", ClassFinal, SourceHost, false, 409,
			"another host owns the run now", "ask the host that `ferment runs show` names"),
		row("journal/damaged", ClassFinal, SourceHost, false, 500,
			"a record or value of the journal was changed or lost",
			"`ferment admin journal-repair --dry-run` says where, without `--dry-run` it repairs the journal"),

		row("replay/miss", ClassFinal, SourceRequest, false, 409,
			"the replay asks for something that the record does not have",
			"replay it with the intents, capabilities and plans of its time: the message names what differs"),
		row("replay/values-purged", ClassFinal, SourceRequest, false, 410, "the recorded values are no longer kept",
			"send the request again; `ferment runs pin` keeps a run beyond store.retain"),
	}
}

// sessionErrors are the failures of sessions, variables and conversations.
func sessionErrors() []Row {
	return []Row{
		row("session/not-found", ClassFinal, SourceRequest, false, 404, "there is no such session",
			"`ferment session list` lists the sessions, `ferment session open` creates one"),
		row("session/invalid-id", ClassFinal, SourceRequest, false, 400,
			"the session id is malformed", "use 1 to 128 of A-Z a-z 0-9 . _ : -"),
		row("session/notes-too-large", ClassFinal, SourceRequest, false, 422,
			"the summary, snapshot, meta and facts of a session are too large", "keep large values in variables, and leave out what is not needed"),
		row("session/version-conflict", ClassFinal, SourceRequest, true, 409,
			"the session changed since it was read", "read it again"),
		row("session/store-unavailable", ClassFinal, SourceHost, true, 503, "the store of sessions cannot be reached", "try again later"),

		row("session.vars/invalid-key", ClassStop, SourceRequest, false, 400, "the key of a session variable is malformed", "name it NS/NAME, such as session/language"),
		row("session.vars/key-namespace-required", ClassStop, SourceRequest, false, 400,
			"the key of a session variable has no namespace", "name it NS/NAME, such as session/language"),
		row("session.vars/key-namespace-forbidden", ClassStop, SourceRequest, false, 422,
			"the namespace of a session variable may not be used", "use one of the namespaces in the message, or allow it in session.vars"),
		row("session.vars/key-too-long", ClassStop, SourceRequest, false, 422, "the key of a session variable is too long", "use a shorter name"),
		row("session.vars/value-too-large", ClassStop, SourceRequest, false, 422, "a session variable is too large", "store less in it, or raise max_value in session.vars"),
		row("session.vars/limit-exceeded", ClassStop, SourceRequest, false, 409, "the session has as many variables as it may have", "delete some"),
		row("session.vars/session-frozen", ClassStop, SourceRequest, false, 409, "the session is frozen", "thaw it first"),
		row("session.vars/policy-read-forbidden", ClassStop, SourceRequest, false, 403, "the policy denies reading a session variable", "use another namespace, or permit this one in session.policy"),
		row("session.vars/policy-write-forbidden", ClassStop, SourceRequest, false, 403, "the policy denies writing a session variable", "use another namespace, or permit this one in session.policy"),
		row("session.vars/policy-delete-forbidden", ClassStop, SourceRequest, false, 403, "the policy denies deleting a session variable", "use another namespace, or permit this one in session.policy"),

		row("conversation/not-found", ClassStop, SourceRequest, false, 404, "there is no such conversation",
			"the intent conversation/list lists the conversations of the caller"),
		row("conversation/turn-not-in-path", ClassStop, SourceRequest, false, 404, "the turn is not on the path of the conversation", "read it again"),
		row("conversation/span-not-in-turn", ClassStop, SourceRequest, false, 404, "the turn has no such alternative", "read it again"),
		row("conversation/invalid-message", ClassStop, SourceRequest, false, 400, "the message is malformed", "correct it at the path in the details"),
		row("conversation/too-large", ClassStop, SourceRequest, false, 413, "the conversation or a message is beyond a limit", "stay below the limit in the details"),
		row("conversation/conflict", ClassRetry, SourceRequest, true, 409, "the conversation changed since it was read", "read it again"),
		row("conversation/store-failed", ClassRetry, SourceHost, true, 503, "the store of conversations failed", "try again later"),
	}
}
