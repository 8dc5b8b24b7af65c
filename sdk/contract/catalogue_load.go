package contract

// loadErrors are reasons to reject a configuration. They carry a source range;
// the current configuration stays in force.
func loadErrors() []Row {
	load := func(typ, help, hint string) Row {
		return row(typ, ClassFinal, SourceHost, false, 422, help, hint)
	}
	return []Row{
		load("config/syntax", "the configuration cannot be read", "correct the text at the range"),
		load("config/unknown-name", "the configuration has a name that is not known here", "the diagnostic has the nearest known name"),
		load("config/missing", "a required setting is absent", "add it"),
		load("config/duplicate", "a setting or block is written twice", "remove one of the two places"),
		load("config/type", "a setting has a value of the wrong type", "the diagnostic says what is expected"),
		load("config/range", "a setting is outside its range", "the diagnostic has the limits"),
		load("config/dangling-reference", "a reference names something that does not exist", "the diagnostic has the nearest known name"),
		load("config/cycle", "settings refer to each other in a circle", "the diagnostic lists the circle"),
		load("config/include", "an included file cannot be used", "the diagnostic has the path"),
		load("config/env-missing", "an environment variable is not set", "set it or give a default"),
		load("config/secret-missing", "a secret cannot be resolved", "provide it where the reference points"),
		load("config/limit", "the configuration is beyond a limit", "split it"),
		load("config/reserved", "the name is kept for something that this build does not have", "remove it"),
		row("config/restart", ClassFinal, SourceHost, false, 409,
			"the change cannot be made while the host runs", "restart it, or take the change back"),
		load("config/overridden", "a built-in definition is replaced", ""),
		load("config/plugin-schema", "the config block does not fit what its plugin asks for", "`ferment plugin inspect` shows the schema"),
		load("config/plugin-unknown", "the plugin could not be asked what it provides", "the diagnostic says what its process did"),
		load("config/lock", "the lock file does not match the configuration", "run `ferment plugin lock`"),
		load("config/unused", "nothing uses the definition", "remove it"),
		load("config/deprecated", "the spelling is out of date", "the diagnostic has the current one"),
		load("capability/invalid-metadata", "the metadata of a plugin cannot be used",
			"correct each field that the message and the details name"),
		load("router/invalid-config", "the router is configured wrongly", "the diagnostic says what is expected"),
		load("router/unknown-capability", "the router names a capability that no plugin provides", "the diagnostic has the nearest known name"),
		load("protocol/invalid", "a protocol package cannot be used", "the diagnostic has the path"),
		load("act/middleware-invalid", "a step of the act pipeline is missing or of the wrong type", ""),
		load("http/insecure-listener", "the listener would be open to strangers", "bind it to loopback or configure TLS and identity"),
		load("agent/invalid", "an agent is defined wrongly", "the details say what is expected"),
	}
}
