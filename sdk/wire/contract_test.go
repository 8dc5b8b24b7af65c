package wire_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// contractPage returns the page for authors of plugins in other languages.
func contractPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("CONTRACT.md")
	require.NoError(t, err)
	return string(page)
}

// WIRE-006: the constants in CONTRACT.md equal those of the code.
func TestContractConstants(t *testing.T) {
	said := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)`[^|]*\\|").FindAllStringSubmatch(contractPage(t), -1) {
		said[row[1]] = row[2]
	}
	limits := edn.Wire
	for name, want := range map[string]string{
		"protocol revision":       strconv.Itoa(wire.Protocol),
		"go-plugin core protocol": strconv.Itoa(plugin.CoreProtocolVersion),
		"cookie variable":         wire.CookieKey,
		"cookie value":            wire.CookieValue,
		"largest message":         strconv.Itoa(wire.MaxMessage),
		"blob threshold":          strconv.Itoa(wire.BlobThreshold),
		"largest string":          strconv.Itoa(wire.MaxString),
		"deepest value":           fmt.Sprint(limits.Depth),
		"most nodes of a value":   fmt.Sprint(limits.Nodes),
		"longest state key":       strconv.Itoa(wire.MaxStateKey),
		"largest state value":     strconv.Itoa(wire.MaxStateValue),
		"longest error message":   "500",
	} {
		assert.Equal(t, want, said[name], name)
	}
	for _, name := range []string{plugin.EnvUnixSocketDir, "PLUGIN_CLIENT_CERT", "PLUGIN_PROTOCOL_VERSIONS"} {
		assert.Contains(t, contractPage(t), "`"+name+"`")
	}
}

// WIRE-006: the bounds in CONTRACT.md equal those of the code, and each has its
// own attack (TestBounds of the plugin adapter).
func TestContractBounds(t *testing.T) {
	var b strings.Builder
	b.WriteString("| bound | resource | limit | beyond it |\n|---|---|---|---|\n")
	for _, bound := range wire.Bounds() {
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", bound.Name, bound.Resource, bound.Limit, bound.Beyond)
	}
	_, page, found := strings.Cut(contractPage(t), "## 13. Bounds")
	require.True(t, found)
	page, _, _ = strings.Cut(page[strings.Index(page, "| bound"):], "\n\n")
	assert.Equal(t, b.String(), page+"\n")
	assert.Equal(t, wire.MaxLine, launch.MaxLine)
}

var idList = regexp.MustCompile(`\(([A-Z]+-\d+(?:, [A-Z]+-\d+)*)\)$`)

// WIRE-006, CONF-002: each rule names existing requirements, and CONTRACT.md
// contains each requirement of the core.
func TestContractNamesRequirements(t *testing.T) {
	known, named := map[string]bool{"WIRE-001": true}, map[string]bool{}
	for _, r := range conformance.Requirements() {
		known[r.ID] = true
		for _, id := range r.Spec {
			known[id] = true
		}
	}
	for _, block := range strings.Split(outside(contractPage(t)), "\n\n") {
		for _, rule := range strings.Split("\n"+block, "\n- ") {
			rule = strings.TrimSpace(strings.Join(strings.Fields(rule), " "))
			ids := idList.FindStringSubmatch(rule)
			if ids == nil {
				normative := strings.Contains(rule, " must ") && !strings.Contains(rule, "A rule that a plugin must keep")
				assert.False(t, normative, "no requirement: %s", rule)
				continue
			}
			for _, id := range strings.Split(ids[1], ", ") {
				assert.True(t, known[id], "%s: %s", id, rule)
				named[id] = true
			}
		}
	}
	for _, r := range conformance.Requirements() {
		if r.Profile == "core" || r.Profile == "host-calls" {
			assert.True(t, named[r.ID], "%s is not on the page: %s", r.ID, r.Text)
		}
	}
}

// outside returns a page without its code blocks.
func outside(page string) string {
	return regexp.MustCompile("(?ms)^<!--.*?-->\n|^```.*?^```$").ReplaceAllString(page, "")
}

// WIRE-006: the metadata keys, effects, schemas and error types in CONTRACT.md
// exist in the code, with the documented requirement or class.
func TestContractWords(t *testing.T) {
	_, page, found := strings.Cut(contractPage(t), "## 12. Words")
	require.True(t, found)
	page, _, _ = strings.Cut(page, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	whole := edn.MustRead(`{:cap/id :d/c :cap/kind :tool :cap/intents #{:d/i} :io/in-schema :req/any :io/out-schema :res/any}`)
	_, err := contract.ParseCapability(whole)
	require.NoError(t, err)
	rows, keys, forms, types := regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \|$|^\| (.+) \| (.+) \|$`).FindAllStringSubmatch(page, -1), 0, 0, 0
	for _, row := range rows {
		for _, word := range quoted.FindAllStringSubmatch(row[1]+row[4], -1) {
			switch name := word[1]; {
			case strings.HasPrefix(name, "cap/"), strings.HasPrefix(name, "io/"):
				keys++
				_, err := contract.ParseCapability(whole.AssocKey(name, edn.Vector(edn.Int(7), edn.Int(7))))
				require.Error(t, err, name)
				assert.Contains(t, err.Error(), ":"+name)
				_, err = contract.ParseCapability(whole.Dissoc(edn.K(name)))
				assert.Equal(t, strings.HasPrefix(row[3], "required"), err != nil, "%s is required: %v", name, err)
			case row[3] != "":
				types++
				known, ok := contract.Lookup(strings.TrimPrefix(name, ":"))
				require.True(t, ok, name)
				assert.Equal(t, row[2], known.Class.String(), name)
			default:
				forms++
				_, err := schema.Compile(edn.MustRead(name))
				assert.NoError(t, err, name)
			}
		}
	}
	assert.Greater(t, keys, 12)
	assert.Greater(t, forms, 20)
	assert.Greater(t, types, 8)
	for _, name := range append(contract.Effects(), "llm", "judge", "checker", "solver", "tool", "agent") {
		assert.Contains(t, page, "`"+name+"`")
	}
	for _, name := range []string{"req/any", "res/any", "req/text", "res/text"} {
		assert.Contains(t, page, "`"+name+"`")
		assert.Contains(t, schema.Builtin(), name)
	}
}

type sample struct{ kind, name, text string }

func samples(t *testing.T) (all []sample) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^<!-- (\\w+): (\\S+) -->\n```\\w+\n(.*?)\n```$").FindAllStringSubmatch(contractPage(t), -1) {
		all = append(all, sample{m[1], m[2], m[3]})
	}
	require.Equal(t, strings.Count(contractPage(t), "<!--"), len(all), "each mark stands before a block")
	return all
}

// WIRE-006: the code accepts every sample of CONTRACT.md.
func TestContractSamples(t *testing.T) {
	shown := map[string]int{}
	var described []edn.Value
	for _, s := range samples(t) {
		shown[s.name]++
		t.Run(s.name+"-"+strconv.Itoa(shown[s.name]), func(t *testing.T) {
			switch s.kind + " " + s.name {
			case "sample handshake":
				handshakeSample(t, s.text)
			case "sample log":
				logSample(t, s.text)
			case "description edn":
				described = append(described, edn.MustRead(s.text))
			default:
				require.Equal(t, "message", s.kind)
				m := message(t, s)
				checkPayloads(t, m)
				if d, ok := m.(*pluginv1.DescribeResponse); ok {
					described = append(described, describedBy(t, d))
				}
			}
		})
	}
	require.Len(t, described, 2)
	assert.True(t, edn.Equal(described[0], described[1]), "the description in JSON and in EDN:\n%s\n%s", described[0], described[1])
	// Every message with content of its own has a sample.
	for i := range pluginv1.File_plugin_proto.Messages().Len() {
		name := string(pluginv1.File_plugin_proto.Messages().Get(i).FullName())
		if short := strings.TrimPrefix(name, "ferment.plugin.v1."); slices.Contains([]string{"Payload", "Blob", "HostInfo", "CallContext", "HealthRequest", "CapabilityHealth", "EndRunRequest", "EndRunResponse"}, short) {
			continue // part of another message, empty, or a single field
		}
		assert.NotZero(t, shown[name], "%s is not shown", name)
	}
}

func message(t *testing.T, s sample) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(s.name))
	require.NoError(t, err)
	m := kind.New().Interface()
	require.NoError(t, prototext.Unmarshal([]byte(s.text), m))
	return m
}

// checkPayloads decodes every payload of a message like its receiver.
func checkPayloads(t *testing.T, m proto.Message) {
	t.Helper()
	var blobs wire.Blobs
	if r, ok := m.(*pluginv1.InvokeRequest); ok {
		for _, b := range r.GetBlobs() {
			require.NoError(t, blobs.Add(b))
		}
		call, err := wire.CallContextFrom(r.GetContext(), wire.JSON)
		require.NoError(t, err)
		assert.Positive(t, call.Attempt)
		request, err := wire.DecodePayload(r.GetRequest(), &blobs)
		require.NoError(t, err)
		for _, key := range []string{"proto", "trace", "task", "input"} {
			assert.True(t, request.HasKey(key), key)
		}
		text, _ := request.Key("input").Key("text").AsString()
		assert.NotEmpty(t, text, "a blob is put in its place")
		return
	}
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() == nil || f.Message().Name() != "Payload" {
			return true
		}
		read, err := wire.DecodePayload(v.Message().Interface().(*pluginv1.Payload), &blobs)
		require.NoError(t, err, f.Name())
		switch f.Name() {
		case "error":
			kind, _ := read.Key("type").AsString()
			_, known := contract.Lookup(kind)
			assert.True(t, known, "%s is in the catalogue", kind)
		case "result":
			assert.True(t, read.Key("result").HasKey("out"))
		case "secrets":
			assert.Equal(t, "[:key]", firstKey(read))
		}
		return true
	})
}

func firstKey(m edn.Value) string {
	for k := range m.Entries() {
		s, ok := k.AsString()
		if !ok {
			s = k.String()
		}
		return s
	}
	return ""
}

// describedBy returns a description as a host receives it and compiles its
// schemas.
func describedBy(t *testing.T, answer *pluginv1.DescribeResponse) edn.Value {
	t.Helper()
	said := serveDescription(t, answer)
	d, err := said.Parse()
	require.NoError(t, err)
	require.Len(t, d.Capabilities, 1)
	for _, form := range d.Schemas {
		_, err := schema.Compile(form)
		require.NoError(t, err)
	}
	_, err = schema.Compile(d.ConfigSchema.Key("config/schema"))
	require.NoError(t, err)
	return said.Value
}

// serveDescription calls Describe of a plugin that answers with answer.
func serveDescription(t *testing.T, answer *pluginv1.DescribeResponse) wire.Description {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer(wire.ServerOptions()...)
	pluginv1.RegisterLifecycleServer(server, describer{answer: answer})
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	conn, err := grpc.NewClient("unix:"+path, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	said, err := wire.NewClient(conn, nil).Describe(t.Context(), edn.Nil(), wire.HostInfo{})
	require.NoError(t, err)
	return said
}

type describer struct {
	pluginv1.UnimplementedLifecycleServer
	answer *pluginv1.DescribeResponse
}

func (d describer) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return d.answer, nil
}

func handshakeSample(t *testing.T, line string) {
	t.Helper()
	h, ok := launch.ParseHandshake(line)
	require.True(t, ok)
	assert.Equal(t, []any{plugin.CoreProtocolVersion, wire.Protocol, "unix", "grpc"}, []any{h.Core, h.Version, h.Network, h.Protocol})
	der, err := base64.RawStdEncoding.DecodeString(h.Certificate)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	for _, role := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", KeyUsages: []x509.ExtKeyUsage{role}, CurrentTime: cert.NotBefore.Add(time.Hour)})
		require.NoError(t, err)
	}
	assert.True(t, cert.IsCA)
}

func logSample(t *testing.T, line string) {
	t.Helper()
	var said map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &said))
	assert.Equal(t, "info", said["@level"])
	_, err := time.Parse(time.RFC3339Nano, said["@timestamp"].(string))
	require.NoError(t, err)
	assert.NotContains(t, line, "\n")
	assert.NotEmpty(t, said["@message"])
}

// WIRE-006: goplugin.proto matches the descriptors of go-plugin.
func TestGoPluginProto(t *testing.T) {
	text := wire.GoPluginProto()
	for _, name := range []protoreflect.FullName{"plugin.GRPCBroker", "plugin.GRPCController", "plugin.GRPCStdio"} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		require.NoError(t, err)
		require.Contains(t, text, "service "+string(name.Name())+" {")
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			m := methods.Get(i)
			stream := map[bool]string{true: "stream "}
			want := fmt.Sprintf("rpc %s(%s%s) returns (%s%s);", m.Name(), stream[m.IsStreamingClient()], m.Input().Name(), stream[m.IsStreamingServer()], m.Output().Name())
			assert.Contains(t, text, want)
		}
	}
	for _, name := range []protoreflect.FullName{"plugin.ConnInfo", "plugin.ConnInfo.Knock", "plugin.StdioData"} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		require.NoError(t, err)
		fields := d.(protoreflect.MessageDescriptor).Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			kind := f.Kind().String()
			if f.Message() != nil {
				kind = string(f.Message().Name())
			} else if f.Enum() != nil {
				kind = string(f.Enum().Name())
			}
			assert.Contains(t, text, fmt.Sprintf("%s %s = %d;", kind, f.Name(), f.Number()))
		}
	}
	assert.Contains(t, wire.PluginProto(), "service Capability {")
}
