package journal

import (
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Hidden replaces a value that is hidden because of its name or its form.
const Hidden = "[hidden]"

// secretWords are the last words of names whose values are secrets.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "authorization", "cookie", "credential", "credentials",
	"apikey", "api-key", "access-key", "private-key", "secret-key", "dsn"}

// SecretName reports whether the name of a field denotes a secret: password, db_password
// or X-Api-Key, but not token/id or max-tokens.
func SecretName(name string) bool {
	name = strings.ToLower(strings.NewReplacer("_", "-", " ", "-").Replace(name))
	for _, word := range secretWords {
		before, ok := strings.CutSuffix(name, word)
		if ok && (before == "" || strings.ContainsAny(before[len(before)-1:], "-./@:")) {
			return true
		}
	}
	return false
}

// secretForms match secrets in any text. The groups of a match are kept.
var secretForms = []*regexp.Regexp{
	regexp.MustCompile(`()\bfm[tsb]_[0-9a-z]{8}_[0-9A-Za-z_-]{20,}`),                                                                       // tokens of the host
	regexp.MustCompile(`(?i)\b((?:bearer|basic) +)[0-9a-z._~+/=-]{12,}`),                                                                   // headers
	regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END[^-]*-----)?`),                                                 // keys of TLS
	regexp.MustCompile(`(://[^\s/:@"\[]*:)(?:[^\s@"]+(@)|[^\s/@"0-9][^\s/@"]*|[0-9]{1,5}[A-Za-z!$%^&*_+=~-][^\s/@"]*|[0-9]{6,}[^\s/@"]*)`), // URLs with a password, also one that is cut
	regexp.MustCompile(`(://)[^\s/:@"]{16,}(@)`),                                                                                           // URLs with a token
	regexp.MustCompile(`()\b(?:sk|pk|rk)-[0-9A-Za-z_-]{16,}`),                                                                              // keys of providers
	regexp.MustCompile(`()\b(?:gh[opusr]_[0-9A-Za-z]{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[0-9A-Za-z-]{10,})`),
	regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key)["']?\s*[:=]\s*["']?)[^\s"',;{}\[\]]+`),
	regexp.MustCompile(`(?i)(:(?:[\w.-]*[/-])?(?:password|passwd|passphrase|secret|token|api-key)\s+")(?:[^"\\]|\\.)+`), // in EDN
}

// HideText returns a text with every part that has the form of a secret, such as a token
// or a private key, replaced by Hidden.
func HideText(text string) string {
	for _, form := range secretForms {
		if form.MatchString(text) {
			text = form.ReplaceAllString(text, "${1}"+Hidden+"${2}")
		}
	}
	return text
}

// HideNamed returns v with the values of secret names (see SecretName) and the texts
// that have the form of a secret replaced by Hidden. Booleans are never hidden.
func HideNamed(v edn.Value) edn.Value {
	if text, ok := v.AsString(); ok {
		if shown := HideText(text); shown != text {
			return edn.Text(shown)
		}
		return v
	}
	return mapValues(v, func(key, v edn.Value) edn.Value {
		name, ok := key.AsKeyword()
		if !ok {
			name, ok = key.AsString()
		}
		if ok && SecretName(name) && !v.IsNil() && v.Kind() != edn.KindBool {
			return edn.Text(Hidden)
		}
		return HideNamed(v)
	})
}
