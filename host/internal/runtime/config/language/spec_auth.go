package language

import "time"

var operationsBlock = Block{
	Name: "operations", Doc: "the roles that operations need",
	Blocks: []Block{{
		Name: "rule", Label: LabelQualified, Doc: "roles that may do the operation; replaces the shipped rule",
		Attrs: ruleAttrs("AUTH-010, AUTH-011"),
	}},
}

// accessBlock is the rule of an intent.
var accessBlock = Block{
	Name: "access", Doc: "the roles that may use the intent; without attributes all that may act",
	Attrs: ruleAttrs("AUTH-011"),
}

// authBlock configures who callers are. Callers without credentials are users in the
// profiles for development.
var authBlock = Block{
	Name: "auth", Doc: "identity of callers: users, tokens and their roles",
	Attrs: []Attr{
		{
			Name: "required", Type: boolean, Default: `true`, Profiles: development(`false`), Reload: ReloadUse,
			Serves: "AUTH-031",
			Doc:    "false: callers of loopback listeners need no credentials",
		},
		{
			Name: "anonymous_role", Type: ref("role"), Default: `"anonymous"`, Profiles: development(`"user"`),
			Reload: ReloadUse, Serves: "AUTH-006, AUTH-031",
			Doc: "role of callers without credentials, where they need none",
		},
		{
			Name: "logged_in_role", Type: ref("role"), Default: `"user"`, Reload: ReloadUse, Serves: "AUTH-006",
			Doc: "role of every user, besides its own and those of its account type",
		},
		{
			Name: "global_context", Type: set(ref("role")), Default: `[]`, Reload: ReloadUse, Serves: "AUTH-006",
			Doc: "roles of all callers",
		},
		{
			Name: "account_roles", Type: Type{Kind: KindMap, Elem: ptr(set(ref("role")))}, Default: `{}`,
			Reload: ReloadUse, Serves: "AUTH-006",
			Doc: "roles of the users of an account type; the types are these keys, simple, and strong_types",
		},
		{
			Name: "strong_types", Type: list(text).between(0, 64), Default: `["system", "manager"]`, Reload: ReloadUse,
			Serves: "AUTH-020",
			Doc:    "account types with the limit of failed logins strong_max",
		},
	},
	Blocks: []Block{
		{Name: "basic", Doc: "passwords", Attrs: []Attr{
			{
				Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "whether a request may have login and password (HTTP Basic)",
			},
			{
				Name: "remember", Type: dur(0, time.Hour), Default: `"60s"`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "how long a password that was verified is not hashed again; a change of the user ends that",
			},
			{
				Name: "min_bytes", Type: integer(12, 1024), Default: `12`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "shortest new password",
			},
			{
				Name: "memory", Type: size(8*mib, 1024*mib), Default: `"19MiB"`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "memory of one hash (argon2id); stored hashes with less are replaced at the next login",
			},
			{
				Name: "time", Type: integer(1, 16), Default: `2`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "passes of one hash",
			},
		}},
		{Name: "tokens", Doc: "tokens of users for programs", Attrs: []Attr{
			{
				Name: "ttl", Type: dur(time.Second, longest), Default: `"90d"`, Reload: ReloadUse, Serves: "AUTH-003",
				Doc: "lifetime of a token that is created without one",
			},
			{
				Name: "max_ttl", Type: dur(time.Second, longest), Default: `"365d"`, Reload: ReloadUse, Serves: "AUTH-003",
				Doc: "longest lifetime of a new token",
			},
		}},
		{Name: "locks", Doc: "limits of failed logins, per account and network (a /64 of IPv6), counted by each host", Attrs: []Attr{
			{
				Name: "strong_max", Type: integer(1, 1000), Default: `8`, Reload: ReloadUse, Serves: "AUTH-020",
				Doc: "failures after which logins to an account of strong_types are refused",
			},
			{
				Name: "strong_window", Type: dur(time.Second, day), Default: `"300s"`, Reload: ReloadUse, Serves: "AUTH-020",
				Doc: "for how long",
			},
			{
				Name: "max", Type: integer(1, 1000), Default: `10`, Reload: ReloadUse, Serves: "AUTH-020",
				Doc: "failures after which logins to another account are refused",
			},
			{
				Name: "window", Type: dur(time.Second, day), Default: `"10m"`, Reload: ReloadUse, Serves: "AUTH-020",
				Doc: "for how long",
			},
			{
				Name: "forgive", Type: dur(time.Second, day), Default: `"1m"`, Reload: ReloadUse, Serves: "AUTH-020",
				Doc: "time after which one failure is forgotten",
			},
			{
				Name: "max_delay", Type: dur(0, time.Minute), Default: `"2s"`, Reload: ReloadUse, Serves: "AUTH-020",
				Doc: "longest delay of a login, which grows with the failures of the account from all networks",
			},
		}},
		{Name: "session_token"},
		{Name: "oidc", Label: LabelIdent},
		{Name: "client_cert"},
	},
}
