package wire

import (
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

	// CookieKey is the variable that tells a plugin that a host started it. It
	// guards against nothing but a person starting it by hand.
	CookieKey = "FERMENT_PLUGIN"
	// CookieValue is the published value of CookieKey.
	CookieValue = "7b1e8c0e-5d3f-4a55-9a80-2f6f1f0c9e41"

	// protocolsEnv is where go-plugin tells the plugin what the host speaks.
	protocolsEnv = "PLUGIN_PROTOCOL_VERSIONS"
)

// Handshake is the go-plugin handshake of this protocol revision.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  Protocol,
		MagicCookieKey:   CookieKey,
		MagicCookieValue: CookieValue,
	}
}

// ClientConfig is a fresh go-plugin configuration for starting one plugin
// process once: gRPC only, mutual TLS, nothing of the host's environment. The
// caller adds what starts the process (RunnerFunc), the logger and the start
// timeout. After a start, Dispense(PluginKey) gives a *[Client].
func ClientConfig() *plugin.ClientConfig {
	c := &plugin.ClientConfig{
		HandshakeConfig:  Handshake(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
	}
	line := newBrokerLine(c)
	c.Plugins = plugin.PluginSet{PluginKey: &GRPC{line: line}}
	c.GRPCDialOptions = append(DialOptions(), line.options()...)
	return c
}

// ServeConfig is the go-plugin configuration that serves service.
func ServeConfig(service Service, opts ...grpc.ServerOption) *plugin.ServeConfig {
	return &plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{PluginKey: &GRPC{Service: service}},
		GRPCServer: func(theirs []grpc.ServerOption) *grpc.Server {
			all := append(ServerOptions(), theirs...)
			return grpc.NewServer(append(all, opts...)...)
		},
	}
}

// StartedByHost reports whether the environment carries the handshake cookie,
// that is, whether a host started this process.
func StartedByHost() bool { return os.Getenv(CookieKey) == CookieValue }

// CheckHost compares the protocol revisions that the host announced in the
// environment with this package's. Nil means that they can talk, or that the
// host announced nothing, as other implementations of go-plugin may.
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

// Incompatible is the error for a host and a plugin without a common protocol
// revision. Its message says which side to upgrade.
func Incompatible(plugin, host []int) *contract.Error {
	older := "the plugin"
	if newest(plugin) > newest(host) {
		older = "the host"
	}
	return contract.Errorf("runtime/protocol",
		"the plugin speaks protocol %s, the host %s: upgrade %s",
		revisions(plugin), revisions(host), older)
}

// Offer is what a plugin says of itself in its handshake line.
type Offer struct {
	Core, Version int
	Protocol      string // of calls, "grpc"
	Certificate   string // base64, empty without mutual TLS
}

// shortestCertificate is a length that no certificate is below.
const shortestCertificate = 50

// Check refuses what could only fail later, with a sentence that says what to do.
func (o Offer) Check() error {
	switch {
	case o.Core != plugin.CoreProtocolVersion:
		return contract.Errorf("runtime/protocol", "the plugin speaks version %d of go-plugin's protocol, the host %d: build it with a current library", o.Core, plugin.CoreProtocolVersion)
	case o.Version != Protocol:
		return Incompatible([]int{o.Version}, []int{Protocol})
	case o.Protocol != string(plugin.ProtocolGRPC):
		return contract.Errorf("runtime/protocol", "the plugin speaks %q, the host gRPC only", o.Protocol)
	case len(o.Certificate) <= shortestCertificate:
		return contract.Errorf("runtime/protocol", "the plugin sent no certificate: the host speaks mutual TLS only")
	}
	return nil
}

// ExplainStart turns the error of a go-plugin start into that of
// [Incompatible] if the two sides had no common protocol revision, and returns
// any other error as it is.
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

// revisions lists them in ascending order: go-plugin announces them in the
// order of a map, another one at each start.
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
// the plugin, and makes a *[Client] in the host, where Service is nil.
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
