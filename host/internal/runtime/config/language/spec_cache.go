package language

import "time"

// cacheBlock configures the cache of accepted answers.
var cacheBlock = Block{
	Name: "cache", Doc: "cache of accepted answers, for intents that are cacheable",
	Attrs: []Attr{
		{
			Name: "enabled", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "RUN-030",
			Doc: "whether an equal request gets the answer of an earlier one; answers are kept in memory",
		},
		{
			Name: "ttl", Type: dur(time.Second, day), Default: `"120s"`, Reload: ReloadUse, Serves: "RUN-033",
			Doc: "how long an answer is kept",
		},
		{
			Name: "max_entries", Type: integer(1, 1_000_000), Default: `256`, Reload: ReloadUse, Serves: "RUN-033",
			Doc: "maximum number of kept answers; the least recently used ones are dropped first",
		},
		{
			Name: "max_bytes", Type: size(kib, tib), Default: `"64MiB"`, Reload: ReloadUse, Serves: "RUN-033",
			Doc: "maximum total size of the kept answers",
		},
	},
}
