package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HTTP holds the settings of the http block.
type HTTP struct {
	// Listen holds addresses as host:port. If Open is not set, literal IP addresses are loopback
	// addresses; names are not resolved yet.
	Listen []string
	// Open reports that the listeners may be reached from other machines, because callers are
	// identified and connections are encrypted (AUTH-030).
	Open bool
	// Proxies are the networks whose header X-Forwarded-For is trusted (AUTH-021).
	Proxies []netip.Prefix
	// AdminSocket is the absolute path of the admin socket.
	AdminSocket string
	// AllowedHosts are names that are accepted in the Host header, in addition to the addresses.
	AllowedHosts []string
	// Origins are the web origins whose pages may call the daemon.
	Origins []string
	// TLS is nil if the listeners do not use TLS.
	TLS    *TLS
	Limits HTTPLimits
	// Heartbeat is the interval of keep-alive messages on an idle stream.
	Heartbeat time.Duration
	// OrphanTTL is the time for which a streamed run continues without a reader.
	OrphanTTL time.Duration
}

// HTTPLimits limit requests and connections (AUTH-033). Sizes are in bytes.
type HTTPLimits struct {
	ActBody, SessionBody, AdminBody   int
	Headers                           int
	HeaderRead, BodyRead, Idle, Write time.Duration
	// StreamWrite is the time limit of one write to a stream.
	StreamWrite             time.Duration
	Connections, PerAddress int
	// RunSubscribers and PrincipalSubscribers are the maximum numbers of concurrent streams of one
	// run and of one caller.
	RunSubscribers, PrincipalSubscribers int
	// ActRate and ActBurst limit the requests of one principal for one operation. AnonymousRate
	// limits the requests of one address without an identity.
	ActRate       Rate
	ActBurst      int
	AnonymousRate Rate
	// LoginRate limits the password verifications for one account and network.
	LoginRate Rate
}

// Rate is a number of events per period.
type Rate struct {
	Events int
	Per    time.Duration
}

func (l *loader) http() {
	s := l.Root.Block("http")
	limits := s.Block("limits")
	h := HTTP{
		AdminSocket: s.Text("admin_socket"),
		Heartbeat:   s.Duration("heartbeat"),
		OrphanTTL:   s.Duration("stream_orphan_ttl"),
		Limits: HTTPLimits{
			ActBody:              limits.Integer("act_body"),
			SessionBody:          limits.Integer("session_body"),
			AdminBody:            limits.Integer("admin_body"),
			Headers:              limits.Integer("headers"),
			HeaderRead:           limits.Duration("header_read"),
			BodyRead:             limits.Duration("body_read"),
			Idle:                 limits.Duration("idle"),
			Write:                limits.Duration("write"),
			StreamWrite:          limits.Duration("stream_write"),
			Connections:          limits.Integer("connections"),
			PerAddress:           limits.Integer("per_address"),
			RunSubscribers:       limits.Integer("run_subscribers"),
			PrincipalSubscribers: limits.Integer("principal_subscribers"),
			ActRate:              l.rate(limits, "act_rate"),
			ActBurst:             limits.Integer("act_burst"),
			AnonymousRate:        l.rate(limits, "anonymous_rate"),
			LoginRate:            l.rate(limits, "login_rate"),
		},
	}
	h.Listen, _ = s.Texts("listen")
	h.AllowedHosts, _ = s.Texts("allowed_hosts")
	h.Origins, _ = s.Texts("cors_origins")
	if h.AdminSocket == "" {
		h.AdminSocket = filepath.Join(l.config.Host.DataDir, "run", "admin.sock")
	}
	h.TLS = l.tls(s.Block("tls"))
	networks, _ := s.Texts("trusted_proxies")
	for _, text := range networks {
		if p, err := netip.ParsePrefix(text); err == nil {
			h.Proxies = append(h.Proxies, p)
		}
	}
	h.Open = l.secure(s, h)
	l.bindable(s, h)
	l.config.HTTP = h
}

// secure reports whether listeners may be reached from other machines: callers must be identified,
// and connections encrypted. It reports addresses that are open although that is not the case.
func (l *loader) secure(s *decode.Section, h HTTP) bool {
	proxied := s.Flag("tls_terminated_by_proxy")
	if proxied && len(h.Proxies) == 0 && s.Written("tls_terminated_by_proxy") {
		l.report.Add(diag.Diagnostic{
			Type:    "config/missing",
			Message: "tls_terminated_by_proxy in http requires trusted_proxies",
			Range:   s.Attrs["tls_terminated_by_proxy"].At,
			Path:    s.PathOf("trusted_proxies"),
			Hint:    "list the networks of the proxies, such as trusted_proxies = [\"10.1.0.0/16\"]",
		})
	}
	required := l.Root.Block("auth").Flag("required")
	encrypted := s.Block("tls").Written("cert_file") || proxied
	if required && encrypted {
		return true
	}
	var missing []string
	if !required {
		missing = append(missing, "auth { required = true }")
	}
	if !encrypted {
		missing = append(missing, "tls { cert_file = ... key_file = ... } or tls_terminated_by_proxy in http")
	}
	for i, address := range h.Listen {
		host, _, err := net.SplitHostPort(address)
		ip, ipErr := netip.ParseAddr(host)
		if err != nil || host != "" && (ipErr != nil || ip.Unmap().IsLoopback()) {
			continue // a name is resolved when it is bound
		}
		l.report.Add(diag.Diagnostic{
			Type:    "http/insecure-listener",
			Message: "listen in http: " + diag.Quote(address) + " is open to other machines",
			Range:   s.Attrs["listen"].Items[i].At,
			Path:    s.PathOf("listen"),
			Found:   edn.Text(address),
			Hint: "it needs " + strings.Join(missing, ", and ") + "; or listen on a loopback address such as " +
				"\"127.0.0.1:7180\"",
		})
	}
	return false
}

// MaxSocketPath is the maximum length of a socket path in bytes that all systems support.
const MaxSocketPath = 103

// bindable reports addresses on which the daemon cannot listen.
func (l *loader) bindable(s *decode.Section, h HTTP) {
	for i, item := range s.Attrs["listen"].Items {
		first := slices.Index(h.Listen, h.Listen[i])
		if first == i || strings.HasSuffix(h.Listen[i], ":0") {
			continue
		}
		l.report.Add(diag.Diagnostic{
			Type:    "config/duplicate",
			Message: "listen in http names " + diag.Quote(h.Listen[i]) + " twice",
			Range:   item.At,
			Path:    s.PathOf("listen"),
			Found:   edn.Text(h.Listen[i]),
			Hint:    "remove it: an address is listened on once",
		})
	}
	v := s.Attrs["admin_socket"]
	if v.Written {
		l.KindOf(s, "admin_socket", decode.File)
	}
	if len(h.AdminSocket) <= MaxSocketPath || !v.Written && !l.opts.Advise {
		return
	}
	d := diag.Diagnostic{
		Type:     "config/range",
		Message:  "the path of admin_socket in http is too long for a socket",
		Range:    v.At,
		Path:     s.PathOf("admin_socket"),
		Expected: edn.Text(fmt.Sprintf("at most %d bytes with all directories", MaxSocketPath)),
		Found:    edn.Text(fmt.Sprintf("%d bytes", len(h.AdminSocket))),
		Hint:     "name a shorter path, such as one below /run",
	}
	if !v.Written { // a warning: only the daemon needs a socket
		d.Severity, d.Range = diag.SeverityWarning, l.Root.Block("ferment").Attrs["data_dir"].At
		d.Message = "no daemon can start: its admin socket lies in the data directory, whose path is too long for a socket"
		d.Hint = `write http { admin_socket = "/run/user/.../ferment.sock" }, or a shorter data_dir in ferment { ... }`
		if d.Range == nil {
			d.Range = &diag.Range{File: l.config.Files[len(l.config.Files)-1].Name}
		}
	}
	l.report.Add(d)
}

// rate reads a rate and rejects zero.
func (l *loader) rate(s *decode.Section, name string) Rate {
	v := s.Attrs[name]
	events, _ := v.EDN.Nth(0)
	per, _ := v.EDN.Nth(1)
	n, _ := events.AsInt()
	ms, _ := per.AsInt()
	if n == 0 && v.Written {
		l.report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  language.Subject(s.PathOf(name)) + " allows no requests",
			Range:    v.At,
			Path:     s.PathOf(name),
			Expected: edn.Text("1/d or more"),
		})
	}
	return Rate{Events: int(n), Per: time.Duration(ms) * time.Millisecond}
}
