package telemetry

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// suspicious matches lines that may contain a secret. Most lines do not match and are not parsed.
var suspicious = regexp.MustCompile(`(?i)passw|passphrase|secret|token|authorization|cookie|credential|api[-_]?key|access[-_]?key|` +
	`private[-_ ]key|dsn|bearer |basic |://[^"\s/]*@|\b(?:sk|pk|rk)-|gh[opusr]_|akia|xox[abprs]-|fmt_`)

// hide returns a JSON line in which values that are secrets by their name or form are replaced
// (TEL-001).
func hide(line []byte) []byte {
	if !suspicious.Match(line) {
		return line
	}
	var fields map[string]any
	read := json.NewDecoder(bytes.NewReader(line))
	read.UseNumber()
	if read.Decode(&fields) != nil {
		return []byte(journal.HideText(string(line)))
	}
	if !hideIn(fields) {
		return line
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return []byte("{}\n") // does not occur: the fields were read from JSON
	}
	return append(out, '\n')
}

// hideIn replaces the secrets among fields and reports whether there were any.
func hideIn(fields map[string]any) (changed bool) {
	for name, v := range fields {
		shown, hidden := hidden(v)
		if _, isBool := v.(bool); journal.SecretName(name) && v != nil && !isBool {
			shown, hidden = journal.Hidden, true
		}
		if hidden {
			fields[name], changed = shown, true
		}
	}
	return changed
}

func hidden(v any) (shown any, changed bool) {
	switch v := v.(type) {
	case string:
		text := journal.HideText(v)
		return text, text != v
	case map[string]any:
		return v, hideIn(v)
	case []any:
		for i := range v {
			if one, hidden := hidden(v[i]); hidden {
				v[i], changed = one, true
			}
		}
		return v, changed
	}
	return v, false
}
