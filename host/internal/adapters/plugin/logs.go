package plugin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	words "github.com/fermenthq/ferment/sdk/text"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The keys of hclog's JSON form, which log files keep.
const (
	logLevel   = "@level"
	logMessage = "@message"
	logTime    = "@timestamp"
)

// parseLine reads what a process wrote. A JSON object with a level and a
// message keeps both; everything else was printed by accident or by a runtime
// that is failing, and is kept as it is.
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
		line.Level = "warn" // it should have been logged: stdout belongs to the handshake
	case strings.HasPrefix(l.Text, "panic: "), strings.HasPrefix(l.Text, "fatal error: "):
		line.Level = "error"
	default:
		line.Level = prefixLevel(l.Text)
	}
	return line
}

// prefixLevel reads "[WARN] text", which many loggers write.
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

// encode is the line as it stands in the log file.
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

// lineCost is what a line takes of wire.MaxLogBurst besides its text. What is
// more than there is room for is counted and not kept. The last lines before an
// exit are kept elsewhere and are not touched by it.
const lineCost = 256

// pluginLog is the log of one plugin: all its processes write to it.
type pluginLog struct {
	file *launch.LogFile // nil: no file
	sink Sink

	mu      sync.Mutex
	hidden  []string
	secret  *words.Secrets // nil: nothing to hide
	long    *words.Secrets // those of them that are taken out of answers too
	level   int            // of the least important lines that are kept
	spent   float64        // of wire.MaxLogBurst
	at      time.Time
	dropped int
}

// minSecretInAnswer keeps a key of few letters, such as the "none" that a local
// server is given, from blanking out words of answers.
const minSecretInAnswer = 8

// hide takes the texts of secrets out of every later line, beside those of
// earlier editions, whose processes may still write.
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
	p.secret, p.long = words.NewSecrets(all), words.NewSecrets(long)
}

// levels from the least important to the most.
var levels = []string{"trace", "debug", "info", "warn", "error"}

// setLevel leaves lines out that the plugin logs below a level. What it prints
// without a level is kept. A process learns the level when it is configured, so
// lines that a lower level would add come from the next process on.
func (p *pluginLog) setLevel(level string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = slices.Index(levels, level)
}

// wanted tells whether the level keeps a line.
func (p *pluginLog) wanted(l Line) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.Stray || slices.Index(levels, l.Level) >= p.level
}

// redact hides secrets in a text.
func (p *pluginLog) redact(text string) string { return p.redactHead(text, len(text)) }

// redactHead is what may be kept of the first most bytes of a text.
func (p *pluginLog) redactHead(text string, most int) string {
	p.mu.Lock()
	secret := p.secret
	p.mu.Unlock()
	return secret.Head(text, most)
}

// redactAnswer hides secrets in a text of an answer.
func (p *pluginLog) redactAnswer(text string) string {
	p.mu.Lock()
	secret := p.long
	p.mu.Unlock()
	return secret.Replace(text)
}

// admit says whether there is room for a line, and how many were left out
// before it.
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

// take keeps a line that came from the plugin now, if there is room for it.
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
		note.Message = "the plugin writes too much: lines were left out"
		note.Fields = map[string]any{"@module": "supervisor", "dropped": dropped}
		p.write(note)
	}
	p.write(l)
}

// write keeps a line. A log that cannot be written is no reason to stop.
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
