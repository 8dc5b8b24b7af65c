package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/go-hclog"
)

// timeFormat is the time format of JSON lines.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// NewLog returns a logger that writes to out: aligned text if text is set, else one JSON object per
// line. levels controls its levels, which start at info. flush writes the counts of folded lines;
// it must be called once, after the last line. A line that is written waits at most patience for out.
func NewLog(out io.Writer, text bool) (log hclog.Logger, levels *Levels, flush func()) {
	if text {
		out = textWriter{out}
	}
	levels = &Levels{base: "info"}
	f := &folder{out: &steady{out: out}, levels: levels, bursts: map[string]*burst{}}
	levels.log = hclog.New(&hclog.LoggerOptions{
		Name:       "ferment",
		Level:      hclog.Info,
		Output:     f,
		JSONFormat: true,
		TimeFormat: timeFormat,
	})
	return levels.log, levels, f.flush
}

// Keys of a line that hclog writes.
const (
	keyLevel   = "@level"
	keyMessage = "@message"
	keyModule  = "@module"
	keyTime    = "@timestamp"
)

// textWriter converts JSON lines to text for people.
type textWriter struct{ out io.Writer }

func (w textWriter) Write(line []byte) (int, error) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return w.out.Write(line)
	}
	if _, err := io.WriteString(w.out, Text(fields)+"\n"); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Text formats the fields of a JSON line for people: time, level, module, message, and the other
// fields.
func Text(fields map[string]any) string {
	take := func(key string) string {
		v, _ := fields[key].(string)
		return v
	}
	at := take(keyTime)
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = t.Local().Format("15:04:05.000")
	}
	module := strings.TrimPrefix(strings.TrimPrefix(take(keyModule), "ferment"), ".")
	if module == "" {
		module = "host"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %-10s %-24s", at, take(keyLevel), module, bare(take(keyMessage)))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case keyTime, keyLevel, keyModule, keyMessage:
		default:
			fmt.Fprintf(&b, "  %s=%s", bare(key), value(fields[key]))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// value formats the value of a field. Text that is empty or contains white space, quotes or control
// characters is quoted.
func value(v any) string {
	text, ok := v.(string)
	if !ok {
		raw, err := json.Marshal(v)
		if err != nil {
			return bare(fmt.Sprint(v))
		}
		return bare(string(raw))
	}
	commands := strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
	quotes := strings.Contains(text, `"`)
	switch {
	case text != "" && !commands && !quotes && !strings.ContainsFunc(text, unicode.IsSpace):
		return text
	case quotes && !commands && !strings.Contains(text, "`"):
		return "`" + text + "`" // readable, unlike with every quote escaped
	}
	return strconv.Quote(text)
}

// bare escapes control characters.
func bare(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
