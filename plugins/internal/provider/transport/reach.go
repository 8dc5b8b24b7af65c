package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"time"
)

// reachLimit is the timeout of Reach.
const reachLimit = 2 * time.Second

// Reach checks whether a connection to the server, or to its proxy, can be
// established: TCP, and TLS if the address requires it. It makes no request, so
// it costs nothing and sends no key.
func (c *Client) Reach(ctx context.Context) *Fault {
	ctx, cancel := Within(ctx, c.set.Clock, min(reachLimit, c.set.Timeouts.Connect))
	defer cancel()
	target := c.set.Base
	if c.set.Proxy != nil {
		target = c.set.Proxy
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if target.Scheme == "https" {
		dialer = &tls.Dialer{Config: c.transport.TLSClientConfig.Clone()}
	}
	conn, err := dialer.DialContext(ctx, "tcp", address(target))
	switch {
	case err == nil:
		_ = conn.Close() // nothing was sent
		return nil
	case ctx.Err() != nil:
		return &Fault{NoConnection, "no connection within timeouts.connect"}
	}
	return &Fault{NoConnection, explain(err)}
}

func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "https" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}
