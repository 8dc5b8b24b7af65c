package plugin

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/logfile"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// SUP-009: a logged line keeps its level, a printed one is flagged.
func TestParseLine(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		stream launch.Stream
		text   string
		level  string
		msg    string
		run    string
		stray  bool
		fields map[string]any
	}{
		"hclog":            {launch.Stderr, `{"@level":"error","@message":"no disk","@timestamp":"2026-05-01T11:00:00Z","run":"r7","free":3}`, "error", "no disk", "r7", false, map[string]any{"free": 3.0}},
		"hclog upper case": {launch.Stderr, `{"@level":"WARN","@message":"x"}`, "warn", "x", "", false, nil},
		"strange level":    {launch.Stderr, `{"@level":"fine","@message":"x"}`, "info", "x", "", false, nil},
		"other json":       {launch.Stderr, `{"level":"error"}`, "info", `{"level":"error"}`, "", true, nil},
		"broken json":      {launch.Stderr, `{"@level":"error`, "info", `{"@level":"error`, "", true, nil},
		"json on stdout":   {launch.Stdout, `{"@level":"error","@message":"x"}`, "warn", `{"@level":"error","@message":"x"}`, "", true, nil},
		"print":            {launch.Print, "hello", "warn", "hello", "", true, nil},
		"stderr":           {launch.Stderr, "hello", "info", "hello", "", true, nil},
		"prefixed":         {launch.Stderr, "[DEBUG] hello", "debug", "[DEBUG] hello", "", true, nil},
		"prefixed oddly":   {launch.Stderr, "[hello] there", "info", "[hello] there", "", true, nil},
		"panic":            {launch.Stderr, "panic: oh", "error", "panic: oh", "", true, nil},
		"runtime failure":  {launch.PrintErr, "fatal error: all goroutines are asleep", "error", "fatal error: all goroutines are asleep", "", true, nil},
		"invalid utf-8":    {launch.Stderr, "\xff\xfe", "info", "\xff\xfe", "", true, nil},
		"empty":            {launch.Stderr, "", "info", "", "", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseLine(launch.Line{Stream: row.stream, Text: row.text}, now)
			assert.Equal(t, row.level, got.Level)
			assert.Equal(t, row.msg, got.Message)
			assert.Equal(t, row.run, got.Run)
			assert.Equal(t, row.stray, got.Stray)
			assert.Equal(t, row.fields, got.Fields)
			var back map[string]any
			require.NoError(t, json.Unmarshal(got.encode(), &back), "the file has one JSON object per line")
			assert.Equal(t, row.level, back["@level"])
			assert.Equal(t, 1, strings.Count(string(got.encode()), "\n"))
		})
	}
	logged := parseLine(launch.Line{Stream: launch.Stderr, Text: `{"@level":"info","@message":"x","@timestamp":"2026-05-01T11:00:00.5Z"}`}, now)
	assert.Equal(t, "2026-05-01T11:00:00.5Z", logged.At.Format(time.RFC3339Nano))
	assert.Equal(t, map[string]any{"cut_bytes": int64(9)}, parseLine(launch.Line{Text: "x", Cut: 9}, now).Fields)
}

func FuzzParseLine(f *testing.F) {
	f.Add(`{"@level":"error","@message":"no disk","@timestamp":"2026-05-01T11:00:00Z","run":"r7"}`)
	f.Add(`{"@level":1,"@message":{}}`)
	f.Add("[WARN")
	f.Fuzz(func(t *testing.T, text string) {
		line := parseLine(launch.Line{Stream: launch.Stderr, Text: text}, dawn)
		assert.Contains(t, []string{"trace", "debug", "info", "warn", "error"}, line.Level)
		assert.True(t, json.Valid(line.encode()))
	})
}

// collector is a sink that keeps lines.
type collector struct{ lines []Line }

func (c *collector) Transition(Transition) {}
func (c *collector) Health(Statement)      {}
func (c *collector) Log(l Line)            { c.lines = append(c.lines, l) }

// A plugin that floods its log costs a bounded number of bytes, and the log
// reports the number of dropped lines.
func TestLogFlood(t *testing.T) {
	sink := &collector{}
	file, err := logfile.Open(filepath.Join(t.TempDir(), "p.log"), logfile.Size, logfile.Count)
	require.NoError(t, err)
	p := &pluginLog{sink: sink, file: file}
	now := dawn
	text := strings.Repeat("x", 1<<16)
	for range 500 {
		p.take(Line{Message: text, At: now, Level: "info"}, now)
	}
	kept := len(sink.lines)
	assert.Greater(t, kept, 100)
	assert.Less(t, kept, 130)
	now = now.Add(time.Second)
	p.take(Line{Message: "after", At: now, Level: "info"}, now)
	require.Len(t, sink.lines, kept+2)
	assert.Equal(t, map[string]any{"@module": "supervisor", "dropped": 500 - kept}, sink.lines[kept].Fields)
	assert.Equal(t, "after", sink.lines[kept+1].Message)
	require.NoError(t, p.close())
	require.NoError(t, (&pluginLog{sink: sink}).close())
}

func TestRedact(t *testing.T) {
	p := &pluginLog{sink: &collector{}}
	assert.Equal(t, "nothing to hide", p.redact("nothing to hide"))
	p.hide(edn.MustRead(`{[:key] "sesame" [:short] "ab" [:n] 5}`))
	assert.Equal(t, "open [secret], cab", p.redact("open sesame, cab"))
}

// ISO-005: answers are searched for secrets of at least 8 bytes, and not at all
// without one.
func TestRedactAnswers(t *testing.T) {
	p := &pluginLog{sink: &collector{}}
	assert.Nil(t, p.answerRedactor())
	p.hide(edn.MustRead(`{[:short] "sesame"}`))
	assert.Nil(t, p.answerRedactor(), "a short secret could be a word of an answer")
	p.hide(edn.MustRead(`{[:key] "open-sesame"}`))
	require.NotNil(t, p.answerRedactor())
	assert.Equal(t, "sesame: [secret]", p.answerRedactor()("sesame: open-sesame"))
}

// ISO-005: a secret is found in the forms in which programs print it: escaped
// in a log line, in a URL, base64-encoded after a user name, one line of a key
// at a time.
func TestRedactForms(t *testing.T) {
	t.Parallel()
	const plain, odd = "CANARY-5f2a91c7", "CANARY \"5f\\2a\" <91>&+/c7\u00e9"
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQDCANARY5f2a91c7\n-----END KEY-----\n"
	p := &pluginLog{sink: &collector{}}
	p.hide(edn.MustMap(edn.Vector(edn.K("plain")), edn.Text(plain), edn.Vector(edn.K("odd")), edn.Text(odd), edn.Vector(edn.K("key")), edn.Text(key)))
	inJSON, err := json.Marshal(odd)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"as it is":         "the key is " + odd + ".",
		"json":             `{"key":` + string(inJSON) + "}",
		"quoted":           fmt.Sprintf("bad key %q", odd),
		"edn":              "{:key " + edn.Text(odd).String() + "}",
		"query":            "https://example.com/?key=" + url.QueryEscape(odd) + "&a=b",
		"path":             "https://example.com/" + url.PathEscape(odd) + "/a",
		"base64":           "key " + base64.StdEncoding.EncodeToString([]byte(plain)),
		"base64 with name": "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+plain)),
		"base64 in text":   base64.RawURLEncoding.EncodeToString([]byte("user=" + odd + ";more")),
		"hexadecimal":      hex.EncodeToString([]byte(plain)),
		"upper case":       strings.ToUpper(hex.EncodeToString([]byte(plain))),
		"line of a key":    "BKcwggSjAgEAAoIBAQDCANARY5f2a91c7",
	} {
		t.Run(name, func(t *testing.T) {
			got := p.redact(text)
			assert.Contains(t, got, "[secret]")
			for _, s := range []string{"5f2a91c7", "2a", "NUFOQVJZ", "CANARY"} {
				assert.NotContains(t, got, s)
			}
		})
	}
	line := parseLine(launch.Line{Stream: launch.Stderr, Text: p.redact(`{"@level":"error","@message":` + string(inJSON) + `}`)}, dawn)
	assert.Equal(t, "[secret]", line.Message, "what is escaped in the line is not in what is kept")
	assert.Equal(t, "-----BEGIN KEY-----", p.redact("-----BEGIN KEY-----"))
	assert.Equal(t, "MIIE", p.redact("MIIE"))
}
