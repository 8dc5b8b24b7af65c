package plugin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/logfile"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	words "github.com/fermenthq/ferment/sdk/text"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Keys of hclog's JSON form, which log files use.
const (
	logLevel   = "@level"
	logMessage = "@message"
	logTime    = "@timestamp"
)

// parseLine parses a line of output. A JSON object with a level and a message is a log line. Any
// other line, for example from a print statement or a crashing runtime, is kept unchanged and
// marked as Stray.
func parseLine(l launch.Line, now time.Time) Line {
	line := Line{At: now, Stream: l.Stream, Message: l.Text, Level: "info", Stray: true, size: len(l.Text)}
	if l.Cut > 0 {
		line.Fields = map[string]any{"cut_bytes": l.Cut}
	}
	if l.Stream == launch.Stderr && strings.HasPrefix(l.Text, "{") {
		var fields map[string]any
		if json.Unmarshal([]byte(l.Text), &fields) == nil {
			level, hasLevel := fields[logLevel].(string)
			message, hasMessage := fields[logMessage].(string)
			if hasLevel && hasMessage {
				line.Stray, line.Level, line.Message = false, levelName(level), message
				if at, err := time.Parse(time.RFC3339Nano, text(fields[logTime])); err == nil {
					line.At = at
				}
				line.Run = text(fields["run"])
				delete(fields, logLevel)
				delete(fields, logMessage)
				delete(fields, logTime)
				delete(fields, "run")
				if len(fields) > 0 {
					line.Fields = fields
				}
				return line
			}
		}
	}
	switch {
	case l.Stream == launch.Stdout || l.Stream == launch.Print:
		line.Level = "warn" // stdout is reserved for the handshake
	case strings.HasPrefix(l.Text, "panic: "), strings.HasPrefix(l.Text, "fatal error: "):
		line.Level = "error"
	default:
		line.Level = prefixLevel(l.Text)
	}
	return line
}

// prefixLevel reads the level of "[WARN] text", a form that many loggers use.
func prefixLevel(text string) string {
	if rest, ok := strings.CutPrefix(text, "["); ok {
		if word, _, ok := strings.Cut(rest, "]"); ok {
			switch level := strings.ToLower(word); level {
			case "trace", "debug", "info", "warn", "error":
				return level
			}
		}
	}
	return "info"
}

func levelName(level string) string {
	switch level = strings.ToLower(level); level {
	case "trace", "debug", "info", "warn", "error":
		return level
	case "warning":
		return "warn"
	}
	return "info"
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// encode returns the line in the format of the log file.
func (l Line) encode() []byte {
	fields := maps.Clone(l.Fields)
	if fields == nil {
		fields = map[string]any{}
	}
	fields[logTime] = l.At.Format(time.RFC3339Nano)
	fields[logLevel] = l.Level
	fields[logMessage] = l.Message
	fields["plugin"] = l.Plugin
	fields["instance"] = l.Instance
	fields["generation"] = l.Generation
	fields["pid"] = l.PID
	if l.Run != "" {
		fields["run"] = l.Run
	}
	if l.Stray {
		fields["stray"] = string(l.Stream)
	}
	out, err := json.Marshal(fields)
	if err != nil {
		out, _ = json.Marshal(map[string]any{logLevel: l.Level, logMessage: l.Message, "plugin": l.Plugin})
	}
	return append(out, '\n')
}

// lineCost is added to the length of each line that counts against wire.MaxLogBurst. Lines above
// the limit are dropped and counted. The last lines before an exit are stored elsewhere and not
// limited.
const lineCost = 256

// pluginLog is the log of one plugin, shared by all its processes.
type pluginLog struct {
	file *logfile.File // nil: no file
	sink Sink

	// long holds those secrets that are also redacted in answers; nil: none. It is read for every
	// answer.
	long atomic.Pointer[words.Secrets]

	mu      sync.Mutex
	hidden  []string
	secret  *words.Secrets // nil: no secrets
	level   int            // lowest index in levels that is logged
	spent   float64        // part of wire.MaxLogBurst in use
	at      time.Time
	dropped int
}

// minSecretInAnswer is the minimum length of a secret that is redacted in answers. It prevents a
// short key, such as the "none" of a local server, from redacting words of answers.
const minSecretInAnswer = 8

// hide adds secrets to those that are redacted in every later line. Secrets of earlier editions are
// kept, because their processes may still write.
func (p *pluginLog) hide(secrets edn.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := len(p.hidden)
	for _, v := range secrets.Entries() {
		if s, ok := v.AsString(); ok && !slices.Contains(p.hidden, s) {
			p.hidden = append(p.hidden, s)
		}
	}
	if len(p.hidden) == known {
		return
	}
	all, long := map[string]string{}, map[string]string{}
	for _, s := range p.hidden {
		all[s] = "[secret]"
		if len(s) >= minSecretInAnswer {
			long[s] = "[secret]"
		}
	}
	p.secret = words.NewSecrets(all)
	if len(long) > 0 {
		p.long.Store(words.NewSecrets(long))
	}
}

// levels are the log levels in ascending order.
var levels = []string{"trace", "debug", "info", "warn", "error"}

// setLevel sets the lowest level that is logged. Printed lines without a level are always logged. A
// process gets the level when it is configured, so lines of a lower level appear only with the next
// process.
func (p *pluginLog) setLevel(level string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = slices.Index(levels, level)
}

// wanted reports whether a line is logged at the current level.
func (p *pluginLog) wanted(l Line) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.Stray || slices.Index(levels, l.Level) >= p.level
}

// redact replaces secrets in a text.
func (p *pluginLog) redact(text string) string { return p.redactHead(text, len(text)) }

// redactHead returns the first most bytes of a text, with secrets redacted.
func (p *pluginLog) redactHead(text string, most int) string {
	p.mu.Lock()
	secret := p.secret
	p.mu.Unlock()
	return secret.Head(text, most)
}

// answerRedactor returns the function that redacts secrets in texts of answers; nil if there are
// none.
func (p *pluginLog) answerRedactor() func(text string) string {
	if secret := p.long.Load(); secret != nil {
		return secret.Replace
	}
	return nil
}

// admit reports whether a line is within the rate limit, and how many lines were dropped since the
// last one that was.
func (p *pluginLog) admit(l Line, now time.Time) (room bool, dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if passed := now.Sub(p.at).Seconds(); passed > 0 {
		p.spent = max(0, p.spent-passed*wire.MaxLogRate)
		p.at = now
	}
	cost := float64(max(len(l.Message), l.size) + lineCost)
	if p.spent+cost > wire.MaxLogBurst {
		p.dropped++
		return false, 0
	}
	p.spent += cost
	dropped, p.dropped = p.dropped, 0
	return true, dropped
}

// take logs a line of the plugin if its level and the rate limit permit it.
func (p *pluginLog) take(l Line, now time.Time) {
	if !p.wanted(l) {
		return
	}
	room, dropped := p.admit(l, now)
	if !room {
		return
	}
	if dropped > 0 {
		note := l
		note.Level, note.Stray, note.Stream = "warn", false, ""
		note.Message = "the plugin writes log lines faster than they are kept: lines were dropped"
		note.Fields = map[string]any{"@module": "supervisor", "dropped": dropped}
		p.write(note)
	}
	p.write(l)
}

// write logs a line. Errors of the log file are ignored: the host continues
// without it.
func (p *pluginLog) write(l Line) {
	if p.file != nil {
		_, _ = p.file.Write(l.encode())
	}
	p.sink.Log(l)
}

func (p *pluginLog) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
