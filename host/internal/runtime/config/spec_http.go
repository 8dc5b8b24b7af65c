package config

import "time"

// httpBlock is the part of the language that listeners are made of.
var httpBlock = Block{
	Name: "http", Doc: "where the daemon listens",
	Attrs: []Attr{
		{Name: "listen", Type: list(Type{Kind: KindListen}).between(0, 16), Default: `["127.0.0.1:7180"]`, Profiles: map[string]string{ProfileAdmin: `[]`, ProfileTest: `["127.0.0.1:0"]`}, Reload: ReloadHost, Serves: "AUTH-030", Doc: "loopback addresses as host:port; none: only the admin socket"},
		{Name: "admin_socket", Type: path, Reload: ReloadHost, Serves: "AUTH-030", Doc: "default: run/admin.sock in the data directory"},
		{Name: "allowed_hosts", Type: list(Type{Kind: KindHostName}).between(0, 64), Default: `[]`, Reload: ReloadUse, Serves: "AUTH-032", Doc: "further names in the Host header"},
		{Name: "trusted_proxies", Type: list(text), Default: `[]`, Reload: ReloadUse, Serves: "AUTH-021"},
		{Name: "tls_terminated_by_proxy", Type: boolean, Default: `false`, Reload: ReloadHost, Serves: "AUTH-030"},
		{Name: "cors_origins", Type: list(text), Default: `[]`, Reload: ReloadUse, Serves: "AUTH-032"},
		{Name: "console", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "AUTH-032"},
		{Name: "stream_orphan_ttl", Type: dur(0, day), Default: `"60s"`, Reload: ReloadUse, Serves: "RUN-007"},
		{Name: "heartbeat", Type: dur(time.Second, time.Hour), Default: `"15s"`, Reload: ReloadUse, Serves: "RUN-044", Doc: "between signs of life on a stream that has nothing to say"},
	},
	Blocks: []Block{
		{Name: "tls", Doc: "what the listeners speak; a renewed certificate is brought in by a reload", Attrs: []Attr{
			{Name: "cert_file", Type: path, Reload: ReloadUse, Serves: "AUTH-030", Doc: "PEM: the certificate of the host, then those that lead to its authority"},
			{Name: "key_file", Type: path, Reload: ReloadUse, Serves: "AUTH-030", Doc: "PEM, not readable by others"},
			{Name: "min_version", Type: enum("1.2", "1.3"), Default: `"1.2"`, Reload: ReloadUse, Serves: "AUTH-030"},
			{Name: "client_ca_file", Type: path, Reload: ReloadUse, Serves: "AUTH-001"},
		}},
		{Name: "limits", Doc: "what one caller may take", Attrs: []Attr{
			{Name: "act_body", Type: size(kib, 64*mib), Default: `"4MiB"`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "session_body", Type: size(kib, 64*mib), Default: `"1MiB"`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "admin_body", Type: size(kib, 64*mib), Default: `"64KiB"`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "headers", Type: size(kib, mib), Default: `"32KiB"`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "header_read", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"5s"`, Reload: ReloadHost, Serves: "AUTH-033"},
			{Name: "body_read", Type: dur(100*time.Millisecond, time.Hour), Default: `"30s"`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "idle", Type: dur(time.Second, day), Default: `"120s"`, Reload: ReloadHost, Serves: "AUTH-033"},
			{Name: "write", Type: dur(100*time.Millisecond, time.Hour), Default: `"30s"`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "stream_write", Type: dur(100*time.Millisecond, time.Hour), Default: `"10s"`, Reload: ReloadUse, Serves: "AUTH-033", Doc: "for one write to who reads a stream; a slower reader is cut off"},
			{Name: "connections", Type: integer(1, 100_000), Default: `1024`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "per_address", Type: integer(1, 100_000), Default: `64`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "run_subscribers", Type: integer(1, 100_000), Default: `64`, Reload: ReloadUse, Serves: "AUTH-033"},
			{Name: "principal_subscribers", Type: integer(1, 100_000), Default: `128`, Reload: ReloadUse, Serves: "AUTH-033", Doc: "streams that one caller may read at once"},
			{Name: "act_rate", Type: Type{Kind: KindRate}, Default: `"20/s"`, Profiles: map[string]string{ProfileTest: `"100000/s"`}, Reload: ReloadUse, Serves: "AUTH-033", Doc: "acts of one principal; of one address where no identity is wanted"},
			{Name: "act_burst", Type: integer(1, 100_000), Default: `40`, Profiles: map[string]string{ProfileTest: `100000`}, Reload: ReloadUse, Serves: "AUTH-033", Doc: "acts at once after a pause"},
			{Name: "anonymous_rate", Type: Type{Kind: KindRate}, Default: `"5/s"`, Profiles: map[string]string{ProfileTest: `"100000/s"`}, Reload: ReloadUse, Serves: "AUTH-033", Doc: "everything else that one address asks for without an identity, but /health and /ready; twice as much at once"},
			{Name: "login_rate", Type: Type{Kind: KindRate}, Default: `"5/min"`, Reload: ReloadUse, Serves: "AUTH-033"},
		}},
	},
}
