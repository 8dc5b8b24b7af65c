package sdk

import (
	"io"
	"log/slog"
)

// levelTrace is the host's level below debug.
const levelTrace = slog.Level(-8)

// newLogger returns a logger in the format that the host expects on standard
// error: one JSON object per line with @level, @message and @timestamp.
func newLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				a.Key = "@timestamp"
				a.Value = slog.StringValue(a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
			case slog.LevelKey:
				a.Key = "@level"
				a.Value = slog.StringValue(levelName(a.Value.Any().(slog.Level)))
			case slog.MessageKey:
				a.Key = "@message"
			}
			return a
		},
	}))
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}
