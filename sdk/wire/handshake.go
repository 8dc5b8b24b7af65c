package wire

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
)

const (
	// Protocol is the protocol revision of this package: the version of the
	// go-plugin handshake and the number in the proto package name.
	Protocol = 1

	// PluginKey is the name under which a plugin is dispensed.
	PluginKey = "ferment"

	// CookieKey is the variable that shows a plugin that a host started it. It
	// only detects a start by hand; it is not a security measure.
	CookieKey = "FERMENT_PLUGIN"
	// CookieValue is the public value of CookieKey.
	CookieValue = "7b1e8c0e-5d3f-4a55-9a80-2f6f1f0c9e41"

	// protocolsEnv is the variable in which go-plugin announces the revisions
	// of the host.
	protocolsEnv = "PLUGIN_PROTOCOL_VERSIONS"
)

// handshake is the go-plugin handshake of this protocol revision.
func handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  Protocol,
		MagicCookieKey:   CookieKey,
		MagicCookieValue: CookieValue,
	}
}

// ClientConfig returns a new go-plugin configuration for starting one plugin
// process once: gRPC only, mutual TLS, without the host's environment. The
// caller adds RunnerFunc, the logger and the start timeout. After a start,
// Dispense(PluginKey) returns a *[Client].
func ClientConfig() *plugin.ClientConfig {
	c := &plugin.ClientConfig{
		HandshakeConfig:  handshake(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
	}
	line := newBrokerLine(c)
	c.Plugins = plugin.PluginSet{PluginKey: &GRPC{line: line}}
	c.GRPCDialOptions = append(DialOptions(), line.options()...)
	return c
}

// ServeConfig returns the go-plugin configuration that serves service.
func ServeConfig(service Service, opts ...grpc.ServerOption) *plugin.ServeConfig {
	return &plugin.ServeConfig{
		HandshakeConfig: handshake(),
		Plugins:         plugin.PluginSet{PluginKey: &GRPC{Service: service}},
		GRPCServer: func(theirs []grpc.ServerOption) *grpc.Server {
			all := append(ServerOptions(), theirs...)
			return grpc.NewServer(append(all, opts...)...)
		},
	}
}

// StartedByHost reports whether a host started this process: the environment
// contains the handshake cookie.
func StartedByHost() bool { return os.Getenv(CookieKey) == CookieValue }

// CheckHost compares the protocol revisions that the host announced in the
// environment with that of this package. Nil means that they are compatible, or
// that the host announced none, as other implementations of go-plugin may.
func CheckHost() error {
	announced := os.Getenv(protocolsEnv)
	if announced == "" {
		return nil
	}
	var theirs []int
	for word := range strings.SplitSeq(announced, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			continue
		}
		if n == Protocol {
			return nil
		}
		theirs = append(theirs, n)
	}
	return Incompatible([]int{Protocol}, theirs)
}

// Incompatible returns the error for a host and a plugin without a common
// protocol revision. Its message names the side to upgrade.
func Incompatible(plugin, host []int) *contract.Error {
	older := "the plugin"
	if newest(plugin) > newest(host) {
		older = "the host"
	}
	return contract.Errorf("runtime/protocol",
		"the plugin speaks protocol %s, the host %s: upgrade %s",
		revisions(plugin), revisions(host), older).WithHint("upgrade " + older)
}

// Offer is the parsed handshake line of a plugin.
type Offer struct {
	Core, Version int
	Protocol      string // of the calls, "grpc"
	Certificate   string // base64, empty without mutual TLS
}

// shortestCertificate is a lower bound for the length of a certificate.
const shortestCertificate = 50

// Check returns :runtime/protocol, with a hint, for an offer to which the host
// cannot connect.
func (o Offer) Check() error {
	switch {
	case o.Core != plugin.CoreProtocolVersion:
		return contract.Errorf("runtime/protocol",
			"the plugin speaks version %d of go-plugin's protocol, the host %d: build it with a current library", o.Core,
			plugin.CoreProtocolVersion).WithHint("build the plugin with a current library")
	case o.Version != Protocol:
		return Incompatible([]int{o.Version}, []int{Protocol})
	case o.Protocol == "":
		return contract.Errorf("runtime/protocol",
			"the handshake line has no part for the protocol: expected core|revision|unix|address|grpc|certificate")
	case o.Protocol != string(plugin.ProtocolGRPC):
		return contract.Errorf("runtime/protocol", "the plugin speaks %q, the host requires grpc", o.Protocol)
	case len(o.Certificate) <= shortestCertificate:
		return contract.Errorf("runtime/protocol", "the plugin sent no certificate: the host requires mutual TLS")
	}
	der, err := base64.RawStdEncoding.DecodeString(o.Certificate)
	if err != nil {
		return contract.Errorf("runtime/protocol",
			"the certificate in the handshake line is not base64 of the standard alphabet without padding: %w", err)
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return contract.Errorf("runtime/protocol", "the last part of the handshake line is not a certificate: %w", err)
	}
	return nil
}

// ExplainStart converts the error of a go-plugin start to that of
// [Incompatible] if the two sides have no common protocol revision. It returns
// any other error unchanged.
func ExplainStart(err error) error {
	if err == nil {
		return nil
	}
	const marker = "incompatible API version with plugin. "
	_, rest, found := strings.Cut(err.Error(), marker)
	if !found {
		return err
	}
	var theirs int
	var ours string
	if _, scan := fmt.Sscanf(rest, "Plugin version: %d, Client versions: ", &theirs); scan != nil {
		return err
	}
	_, ours, _ = strings.Cut(rest, "Client versions: ")
	var host []int
	for word := range strings.FieldsSeq(strings.Trim(ours, "[] ")) {
		if n, err := strconv.Atoi(word); err == nil {
			host = append(host, n)
		}
	}
	return Incompatible([]int{theirs}, host)
}

func newest(revisions []int) int {
	most := 0
	for _, n := range revisions {
		most = max(most, n)
	}
	return most
}

// revisions lists the revisions in ascending order; go-plugin announces them in
// the random order of a map.
func revisions(all []int) string {
	if len(all) == 0 {
		return "none"
	}
	all = slices.Sorted(slices.Values(all))
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}

// GRPC is the entry of the plugin map on both sides: it registers Service in
// the plugin, and creates a *[Client] in the host, where Service is nil.
type GRPC struct {
	plugin.NetRPCUnsupportedPlugin
	Service Service
	line    *brokerLine
}

var _ plugin.GRPCPlugin = (*GRPC)(nil)

// GRPCServer implements plugin.GRPCPlugin.
func (g *GRPC) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	if g.Service == nil {
		return fmt.Errorf("serve plugin: no service")
	}
	Register(server, g.Service, broker)
	return nil
}
