package language

import "time"

// httpBlock configures the listeners of the daemon.
var httpBlock = Block{
	Name: "http", Doc: "listeners of the daemon",
	Attrs: []Attr{
		{
			Name: "listen", Type: list(Type{Kind: KindListen}).between(0, 16), Default: `["127.0.0.1:7180"]`,
			Profiles: map[string]string{ProfileAdmin: `[]`, ProfileTest: `["127.0.0.1:0"]`}, Reload: ReloadHost,
			Serves: "AUTH-030",
			Doc: "addresses as host:port; an empty list leaves only the admin socket. One that other machines can reach needs " +
				"auth.required, and tls or tls_terminated_by_proxy",
		},
		{
			Name: "admin_socket", Type: path, Reload: ReloadHost, Serves: "AUTH-030",
			Doc: "Unix socket of the admin API; default: run/admin.sock in data_dir",
		},
		{
			Name: "allowed_hosts", Type: list(Type{Kind: KindHostName}).between(0, 64), Default: `[]`,
			Reload: ReloadUse, Serves: "AUTH-032",
			Doc: "additional names accepted in the Host header",
		},
		{
			Name: "trusted_proxies", Type: list(Type{Kind: KindNetwork}).between(0, 64), Default: `[]`, Reload: ReloadUse,
			Serves: "AUTH-021",
			Doc:    "networks of proxies whose header X-Forwarded-For names the caller: its last address outside of them",
		},
		{
			Name: "tls_terminated_by_proxy", Type: boolean, Default: `false`, Reload: ReloadHost, Serves: "AUTH-030",
			Doc: "true: callers reach the listeners only through trusted_proxies, over TLS, so listeners without TLS may be open to them",
		},
		{
			Name: "cors_origins", Type: list(Type{Kind: KindOrigin}).between(0, 64), Default: `[]`, Reload: ReloadUse,
			Serves: "AUTH-032",
			Doc:    "origins whose pages may call the daemon with a token, exactly as browsers send them; login cookies do not count there",
		},
		{Name: "console", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "AUTH-032"},
		{
			Name: "stream_orphan_ttl", Type: dur(0, day), Default: `"60s"`, Reload: ReloadUse, Serves: "RUN-007",
			Doc: "how long a streamed run without an idempotency key goes on while it has no reader; then it is canceled. " +
				"With store.driver = \"memory\" it is canceled as soon as its reader is gone",
		},
		{
			Name: "heartbeat", Type: dur(time.Second, time.Hour), Default: `"15s"`, Reload: ReloadUse,
			Serves: "RUN-044",
			Doc:    "interval of keep-alive messages on an idle stream",
		},
	},
	Blocks: []Block{
		{Name: "tls", Doc: "TLS of the listeners; a reload loads a renewed certificate", Attrs: []Attr{
			{
				Name: "cert_file", Type: path, Reload: ReloadUse, Serves: "AUTH-030",
				Doc: "PEM file: the certificate of the host, followed by its intermediate certificates",
			},
			{
				Name: "key_file", Type: path, Reload: ReloadUse, Serves: "AUTH-030",
				Doc: "PEM file of the private key, which other users must not be able to read",
			},
			{
				Name: "min_version", Type: enum("1.2", "1.3"), Default: `"1.2"`, Reload: ReloadUse,
				Serves: "AUTH-030",
				Doc:    "lowest accepted TLS version",
			},
			{
				Name: "client_ca_file", Type: path, Reload: ReloadUse, Serves: "AUTH-001",
				Doc: "PEM file of the authorities whose client certificates auth.client_cert maps to users; callers may still have none",
			},
		}},
		{Name: "limits", Doc: "limits of requests and connections", Limits: true, Attrs: []Attr{
			{
				Name: "act_body", Type: size(kib, 64*mib), Default: `"4MiB"`, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum size of the body of an act request",
			},
			{
				Name: "session_body", Type: size(kib, 64*mib), Default: `"1MiB"`, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum size of the body of a session action",
			},
			{
				Name: "admin_body", Type: size(kib, 64*mib), Default: `"64KiB"`, Reload: ReloadUse,
				Serves: "AUTH-033",
				Doc:    "maximum size of the body of an admin request",
			},
			{
				Name: "headers", Type: size(kib, mib), Default: `"32KiB"`, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum total size of the headers of a request",
			},
			{
				Name: "header_read", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"5s"`,
				Reload: ReloadHost, Serves: "AUTH-033",
				Doc: "time limit for reading the request headers",
			},
			{
				Name: "body_read", Type: dur(100*time.Millisecond, time.Hour), Default: `"30s"`, Reload: ReloadUse,
				Serves: "AUTH-033",
				Doc:    "time limit for reading the request body",
			},
			{
				Name: "idle", Type: dur(time.Second, day), Default: `"120s"`, Reload: ReloadHost, Serves: "AUTH-033",
				Doc: "idle time after which a connection is closed",
			},
			{
				Name: "write", Type: dur(100*time.Millisecond, time.Hour), Default: `"30s"`, Reload: ReloadUse,
				Serves: "AUTH-033",
				Doc:    "time limit for writing a response",
			},
			{
				Name: "stream_write", Type: dur(100*time.Millisecond, time.Hour), Default: `"10s"`, Reload: ReloadUse,
				Serves: "AUTH-033",
				Doc:    "time limit of one write to a stream; a slower client is disconnected",
			},
			{
				Name: "connections", Type: integer(1, 100_000), Default: `1024`, Reload: ReloadUse,
				Serves: "AUTH-033",
				Doc:    "maximum number of open connections of all listeners",
			},
			{
				Name: "per_address", Type: integer(1, 100_000), Default: `64`, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum number of open connections of one client address, or of one process on the admin socket",
			},
			{
				Name: "run_subscribers", Type: integer(1, 100_000), Default: `64`, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum number of concurrent streams of one run",
			},
			{
				Name: "principal_subscribers", Type: integer(1, 100_000), Default: `128`, Reload: ReloadUse,
				Serves: "AUTH-033",
				Doc:    "maximum number of concurrent streams of one caller",
			},
			{
				Name: "act_rate", Type: Type{Kind: KindRate}, Default: `"20/s"`,
				Profiles: map[string]string{ProfileTest: `"100000/s"`}, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum rate of act requests of one principal, or of one address if no identity is required; likewise " +
					"its requests for each other operation, such as reading runs",
			},
			{
				Name: "act_burst", Type: integer(1, 100_000), Default: `40`,
				Profiles: map[string]string{ProfileTest: `100000`}, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "number of act requests that are accepted at once after a pause",
			},
			{
				Name: "anonymous_rate", Type: Type{Kind: KindRate}, Default: `"5/s"`,
				Profiles: map[string]string{ProfileTest: `"100000/s"`}, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum rate of other requests of one address without an identity, except /health and /ready; the " +
					"burst is twice the rate",
			},
			{
				Name: "login_rate", Type: Type{Kind: KindRate}, Default: `"5/min"`,
				Profiles: map[string]string{ProfileTest: `"100000/s"`}, Reload: ReloadUse, Serves: "AUTH-033",
				Doc: "maximum rate of passwords that are verified for one account and network; \"5/min\" also permits 5 at once",
			},
		}},
	},
}
