package language

import "time"

// The drivers of the store and its sync modes.
const (
	StoreSQLite   = "sqlite"
	StoreMemory   = "memory"
	StorePostgres = "postgres"

	SyncFull = "full"
	SyncOff  = "off"
)

// storeBlock configures the durable journal of runs.
var storeBlock = Block{
	Name: "store", Doc: "journal of runs of the daemon, which survives a restart",
	Attrs: []Attr{
		{
			Name: "driver", Type: enum(StoreSQLite, StorePostgres, StoreMemory), Default: `"sqlite"`,
			Profiles: map[string]string{ProfileTest: `"memory"`}, AsStrict: []string{StorePostgres}, Reload: ReloadHost, Serves: "SES-030",
			Doc: "sqlite: a file in data_dir; postgres: a database that several hosts may share; " +
				"memory: runs are lost when the daemon ends",
		},
		{
			Name: "path", Type: text, Default: `"ferment.db"`, Reload: ReloadHost, Serves: "JRN-003",
			Doc: "file of the driver sqlite, relative to data_dir; large values lie in blobs beside it",
		},
		{
			Name: "dsn", Type: Type{Kind: KindSecret}, Reload: ReloadHost, Serves: "SES-030",
			Doc: "connection string of the driver postgres, such as postgres://ferment@db.example/ferment",
		},
		{
			Name: "sync", Type: enum(SyncFull, SyncOff), Default: `"full"`,
			Profiles: map[string]string{ProfileTest: `"off"`}, Reload: ReloadHost, Serves: "JRN-003",
			Doc: "full: a commit survives a power failure; off: only in profile test",
		},
		{
			Name: "min_free", Type: size(0, tib), Default: `"512MiB"`, Reload: ReloadUse, Serves: "JRN-006",
			Doc: "free space below which new acts are rejected, with the driver sqlite",
		},
		{Name: "keep_reasoning", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "TXT-001"},
		{Name: "reserve", Type: size(0, tib), Default: `"64MiB"`, Reload: ReloadHost, Serves: "JRN-006"},
		{Name: "inline_max", Type: size(0, 64*mib), Default: `"256KiB"`, Reload: ReloadHost, Serves: "JRN-020"},
		{
			Name: "auto_migrate", Type: boolean, Default: `true`, Reload: ReloadHost, Serves: "OPS-007",
			Doc: "bring the schema of the driver sqlite to the version of this program at the start, after a copy of " +
				"the file; false: such a start is refused, and \"ferment admin migrate\" brings it there",
		},
		{
			Name: "allow_network_fs", Type: boolean, Default: `false`, Reload: ReloadHost, Serves: "OPS-002",
			Doc: "accept the driver sqlite on a network file system, where it can lose what it has committed",
		},
		{
			Name: "lease", Type: dur(time.Second, time.Hour), Default: `"15s"`, Reload: ReloadHost, Serves: "JRN-007",
			Doc: "time without a sign of life of this host after which another one on the same database takes over its runs",
		},
	},
	Blocks: []Block{
		{Name: "retain", Doc: "how long finished runs are kept; the oldest go first", Attrs: []Attr{
			{
				Name: "age", Type: dur(time.Minute, 3650*day), Default: `"30d"`, Reload: ReloadUse, Serves: "JRN-060",
				Doc: "age of a finished run after which it is removed",
			},
			{
				Name: "failed_age", Type: dur(0, 3650*day), Default: `"0s"`, Reload: ReloadUse, Serves: "JRN-060",
				Doc: "age of a finished run that did not complete after which it is removed; 0s: as age",
			},
			{
				Name: "size", Type: size(mib, 1024*tib), Default: `"10GiB"`, Reload: ReloadUse, Serves: "JRN-060",
				Doc: "maximum total size of the kept runs",
			},
			{
				Name: "key_window", Type: dur(day, 3650*day), Default: `"24h"`, Reload: ReloadUse, Serves: "RUN-020",
				Doc: "how long a run with an idempotency key is kept at least",
			},
		}},
	},
}
