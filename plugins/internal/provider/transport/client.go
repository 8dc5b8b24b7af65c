package transport

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Timeouts are the timers of an exchange. The package comment describes them.
type Timeouts struct{ Connect, First, Silence, Stall, Total time.Duration }

// Settings configure a client.
type Settings struct {
	Base     *url.URL
	Header   http.Header // of every request; it may hold a key
	Timeouts Timeouts
	Proxy    *url.URL       // nil: none
	Roots    *x509.CertPool // nil: those of the system
	Conns    int            // idle connections that are kept
	Clock    Clock
}

// Client makes the requests of one account. It is safe for concurrent use.
type Client struct {
	set       Settings
	transport *http.Transport
}

// idle is the lifetime of an unused connection.
const idle = 30 * time.Second

// NewClient returns a client. The caller must close it.
func NewClient(s Settings) *Client {
	if s.Clock == nil {
		s.Clock = System()
	}
	t := &http.Transport{
		DialContext:            (&net.Dialer{}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.Roots},
		DisableCompression:     true, // compressed pieces would arrive late
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           s.Conns,
		MaxIdleConnsPerHost:    max(s.Conns, 1),
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if s.Proxy != nil {
		t.Proxy = http.ProxyURL(s.Proxy)
	}
	return &Client{set: s, transport: t}
}

// Clock returns the clock of the client.
func (c *Client) Clock() Clock { return c.set.Clock }

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }
