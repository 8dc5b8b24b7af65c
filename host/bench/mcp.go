package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The peer of a plugin call among tools: a Model Context Protocol server over standard input and
// output, built with the official SDK, with one tool that returns the text it receives.

const roleMCP = "mcp"

type mcpText struct {
	Text string `json:"text"`
}

func serveMCP() error {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "gives back the text"},
		func(_ context.Context, _ *mcp.CallToolRequest, in mcpText) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	return server.Run(context.Background(), &mcp.StdioTransport{})
}

type mcpPeer struct{ session *mcp.ClientSession }

func startMCP(ctx context.Context) (*mcpPeer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(self, roleMCP)}, nil)
	if err != nil {
		return nil, err
	}
	return &mcpPeer{session}, nil
}

func (m *mcpPeer) echo(ctx context.Context, text string) error {
	out, err := m.session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: mcpText{text}})
	if err != nil {
		return err
	}
	if len(out.Content) != 1 {
		return fmt.Errorf("the tool answered %d parts", len(out.Content))
	}
	if got, ok := out.Content[0].(*mcp.TextContent); !ok || got.Text != text {
		return fmt.Errorf("the tool answered another text")
	}
	return nil
}

func (m *mcpPeer) close() { _ = m.session.Close() }

// tools compares a gated call with an MCP tool call of the same size.
func tools(p pace) ([]row, error) {
	ctx := context.Background()
	h, err := startHost(benchConfig)
	if err != nil {
		return nil, err
	}
	defer h.close()
	peer, err := startMCP(ctx)
	if err != nil {
		return nil, err
	}
	defer peer.close()
	const size = 4 << 10
	request, text := envelope(size), strings.Repeat("plain words and a few more, ", size/28)
	ours, theirs, err := oneByOne(p, max(20, p.calls/4),
		func() error { return h.call(ctx, request) }, func() error { return peer.echo(ctx, text) })
	if err != nil {
		return nil, err
	}
	return []row{against("gated call 4 KiB, p50", median(ours), "MCP stdio tool call", median(theirs), 0.35)}, nil
}

// deadline is the maximum time for which a benchmark waits for an event.
const deadline = 10 * time.Minute
