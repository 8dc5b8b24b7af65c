package wiretest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const clientsLimit = 3 * time.Minute

// Reading is one answer for a client to read.
type Reading struct {
	Name    string `json:"-"`
	Dialect string `json:"dialect"`
	URL     string `json:"url"`
	// Limit is the limit of output tokens that the client sends, 0 for none. Only the
	// client of openai-chat has it.
	Limit int `json:"limit,omitempty"`
}

// Sight is the result of a vendor's client for one Reading, or the error that it threw.
type Sight struct {
	Error string `json:"error"`
	Seen  struct {
		Text, Reasoning, Finish string
		Sealed                  []string
		Calls                   []struct{ ID, Name, Args string }

		In, Out, Cached, Written, Thought any // nil, or a number as sent
	} `json:"seen"`
}

// clientsMissing returns what is not installed, "" if nothing is missing.
func clientsMissing(dir string) string {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not installed (version 20 or later)"
	}
	for _, name := range []string{"openai", "@anthropic-ai/sdk", "ollama"} {
		if _, err := os.Stat(filepath.Join(dir, "node_modules", name)); err != nil {
			return "package " + name + " is not installed: run npm ci in plugins/internal/provider/wiretest/clients"
		}
	}
	return ""
}

// ReadByClients makes the vendors' own clients read all answers and returns one Sight per reading,
// in order. It runs read.mjs with node, as one process, in dir, where the clients are installed. It
// fails the test if they are not.
func ReadByClients(t *testing.T, dir string, readings []Reading) []Sight {
	t.Helper()
	if missing := clientsMissing(dir); missing != "" {
		t.Fatalf("the vendors' clients cannot be run: %s", missing)
	}
	var lines, said bytes.Buffer
	for _, r := range readings {
		require.NoError(t, json.NewEncoder(&lines).Encode(r))
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientsLimit)
	defer cancel()
	c := exec.CommandContext(ctx, "node", "read.mjs")
	c.Dir, c.Stdin, c.Stderr = dir, &lines, &said
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	out, err := c.Output()
	require.NoError(t, err, "%s", &said)
	var sights []Sight
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var s Sight
		require.NoError(t, d.Decode(&s))
		sights = append(sights, s)
	}
	require.Len(t, sights, len(readings), "%s", &said)
	return sights
}

// finishWords are the vendors' finish reasons of complete answers.
var finishWords = map[string]string{
	// openai-chat, ollama-chat
	"stop": "stop", "length": "length", "tool_calls": "tool-calls",
	// other servers with openai-chat
	"eos_token": "stop", "eos": "stop",
	// openai-responses, whose complete answers have no other reason
	"max_output_tokens": "length",
	// anthropic-messages; text-generation-inference has stop_sequence too
	"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool-calls",
}

// Want converts the result of the client to the form of a transcript.
func (s Sight) Want(dialect string) Want {
	count := func(n any, missing int64) int64 {
		if n, ok := n.(float64); ok {
			return int64(n)
		}
		return missing
	}
	w := Want{
		Text:      s.Seen.Text,
		Reasoning: s.Seen.Reasoning,
		Finish:    cmp.Or(finishWords[s.Seen.Finish], s.Seen.Finish),
		In:        count(s.Seen.In, -1),
		Out:       count(s.Seen.Out, -1),
		Cached:    count(s.Seen.Cached, 0),
		Written:   count(s.Seen.Written, 0),
		Sealed:    s.Seen.Sealed,
		Thought:   count(s.Seen.Thought, 0),
	}
	if len(w.Sealed) == 0 {
		w.Sealed = nil
	}
	for _, c := range s.Seen.Calls {
		w.Calls = append(w.Calls, strings.TrimSpace(c.ID+" "+c.Name+" "+c.Args))
	}
	if dialect == "ollama-chat" && w.Finish == "stop" && len(w.Calls) > 0 {
		w.Finish = "tool-calls" // the dialect has no such finish reason
	}
	return w
}
