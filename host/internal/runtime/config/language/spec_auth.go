package language

import "time"

var operationsBlock = Block{
	Name: "operations", Doc: "the roles that operations need",
	Blocks: []Block{{
		Name: "rule", Label: LabelQualified, Doc: "roles that may do the operation; replaces the shipped rule",
		Attrs: ruleAttrs("AUTH-010, AUTH-011"),
	}},
}

// accessBlock is a rule for an intent.
var accessBlock = Block{
	Name: "access", Doc: "the roles that may use the intent; without attributes all that may act",
	Attrs: ruleAttrs("AUTH-011"),
}

// authBlock configures the identification of callers. Callers without credentials are users in the
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
			Doc: "role that every user has in addition to its own roles and those of its account type",
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
			Doc:    "account types whose limit of failed logins is strong_max",
		},
	},
	Blocks: []Block{
		{Name: "basic", Doc: "passwords", Attrs: []Attr{
			{
				Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "whether a request may identify its caller by login and password (HTTP Basic)",
			},
			{
				Name: "remember", Type: dur(0, time.Hour), Default: `"60s"`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "how long a verified password is accepted without hashing it again; a change of the user ends this time",
			},
			{
				Name: "min_bytes", Type: integer(12, 1024), Default: `12`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "shortest new password",
			},
			{
				Name: "memory", Type: size(8*mib, 1024*mib), Default: `"19MiB"`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "memory that one hash uses (argon2id); stored hashes with less are replaced at the next login",
			},
			{
				Name: "time", Type: integer(1, 16), Default: `2`, Reload: ReloadUse, Serves: "AUTH-002",
				Doc: "number of argon2id passes of one hash",
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
		{Name: "session_token", Doc: "tokens of sessions, which the action open makes with :token? true", Attrs: []Attr{
			{
				Name: "operations", Type: set(enum(sessionOperations...)), Default: `[]`, Reload: ReloadUse, Serves: "AUTH-004",
				Doc: "operations that a session token permits, as far as the credential that created it permits them; empty: " +
					"session tokens are disabled",
			},
			{
				Name: "idle_ttl", Type: dur(time.Minute, day), Default: `"30m"`, Reload: ReloadUse, Serves: "AUTH-004",
				Doc: "time without use after which a token expires",
			},
			{
				Name: "refresh", Type: dur(time.Second, time.Hour), Default: `"5m"`, Reload: ReloadUse, Serves: "AUTH-004",
				Doc: "shortest time between two updates of the stored last use of a token; less than idle_ttl",
			},
		}},
		{Name: "browser", Doc: "logins of browsers with a password, which a cookie keeps", Attrs: []Attr{
			{
				Name: "enabled", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "AUTH-032",
				Doc: "whether POST /v1/auth/login makes cookies",
			},
			{
				Name: "ttl", Type: dur(time.Minute, 7*day), Default: `"12h"`, Reload: ReloadUse, Serves: "AUTH-032",
				Doc: "how long a login lasts",
			},
		}},
		oidcBlock,
		{Name: "client_cert", Doc: "users with a client certificate that http.tls.client_ca_file confirms", Attrs: []Attr{
			{
				Name: "subjects", Type: Type{Kind: KindMap, Elem: &text}, Default: `{}`, Reload: ReloadUse, Serves: "AUTH-001",
				Doc: "login or id of a user by name of the certificate: its subject, such as CN=robot,O=lab, or dns:, email:, uri: or ip: with an alternative name",
			},
		}},
	},
}

// oidcBlock is an issuer of tokens.
var oidcBlock = Block{
	Name: "oidc", Label: LabelIdent, Doc: "an OpenID Connect issuer whose tokens identify callers",
	Attrs: []Attr{
		{
			Name: "issuer", Type: text, Required: true, Reload: ReloadUse, Serves: "AUTH-005",
			Doc: "its https URL, exactly as in the claim iss of its tokens",
		},
		{
			Name: "audience", Type: text, Required: true, Reload: ReloadUse, Serves: "AUTH-005",
			Doc: "name of this host in the claim aud of tokens that are for it",
		},
		{
			Name: "algorithms", Type: list(enum("RS256", "ES256", "EdDSA")).between(1, 3),
			Default: `["RS256", "ES256", "EdDSA"]`, Reload: ReloadUse, Serves: "AUTH-005",
			Doc: "signatures that are accepted",
		},
		{
			Name: "skew", Type: dur(0, 5*time.Minute), Default: `"60s"`, Reload: ReloadUse, Serves: "AUTH-005",
			Doc: "difference of the clocks that is tolerated",
		},
		{
			Name: "claim", Type: text, Default: `"roles"`, Reload: ReloadUse, Serves: "AUTH-005",
			Doc: "claim with a text or a list of texts that roles maps; dots lead into objects",
		},
		{
			Name: "roles", Type: Type{Kind: KindMap, Elem: ptr(set(ref("role")))}, Default: `{}`, Reload: ReloadUse,
			Serves: "AUTH-005",
			Doc:    "roles by value of the claim; all other values give none",
		},
		{
			Name: "tenant_claim", Type: text, Reload: ReloadUse, Serves: "AUTH-005",
			Doc: "claim with the tenant of the caller, which a token must have; default: callers belong to the host itself",
		},
		{
			Name: "ca_file", Type: readFiles, Reload: ReloadUse, Serves: "AUTH-005",
			Doc: "PEM file of the authorities that confirm the certificate of the issuer; default: those of the system",
		},
	},
}

// sessionOperations are the operations of session tokens: on their session and on runs.
var sessionOperations = []string{"http.v1/act", "http.v1/session", "runs/answer", "runs/cancel", "runs/read"}
