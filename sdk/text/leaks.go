package text

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckReasoning looks for remains of reasoning blocks outside of code and of the strings
// of a value that the text begins with. An unclosed fence is not treated as code.
func CheckReasoning(s string) []Remark {
	return tagsOutside(s, "a tag of hidden reasoning is left", "leave the reasoning out",
		"<think>", "</think>", "<thinking>", "</thinking>", "<reasoning>", "</reasoning>", "<|begin_of_thought|>",
		"<|end_of_thought|>", "◁think▷", "◁/think▷", "<scratchpad>", "</scratchpad>")
}

// CheckTools looks for tool calls that were written as text.
func CheckTools(s string) []Remark {
	const message, fix = "a tool call is left in the text", "call the tool, or answer in words"
	if calls, rest, _ := toolCalls(s); len(calls) > 0 || rest != s {
		return []Remark{{Span{0, len(s)}, message, fix}}
	}
	return tagsOutside(s, message, fix, "<tool_call>", "</tool_call>", "<tool_response>", "<function_call>",
		"</function_call>", "<function=", "[TOOL_CALLS]", "<|tool_call|>", "<|tool_calls_section_begin|>", "<|python_tag|>",
		"<tool_use>", "</tool_use>", "<invoke name=")
}

func tagsOutside(s, message, fix string, tags ...string) []Remark {
	// Not ContainsAny: with a rune outside of ASCII it takes ten scans.
	if !strings.Contains(s, "<") && !strings.Contains(s, "[") && !strings.Contains(s, "◁") {
		return nil
	}
	code, closed := Code(s)
	if !closed {
		code = code[:len(code)-1]
	}
	var out []Remark
	var v value
	for at := 0; at < len(s) && len(out) < maxRemarks; at++ {
		if v.inString(s[at]) || s[at] != '<' && s[at] != '[' && s[at] != "◁"[0] {
			continue
		}
		for len(code) > 0 && code[0].End <= at {
			code = code[1:]
		}
		if len(code) > 0 && code[0].Start <= at {
			for at++; at < code[0].End; at++ {
				v.inString(s[at])
			}
			at--
			continue
		}
		for _, tag := range tags {
			if len(s)-at >= len(tag) && strings.EqualFold(s[at:at+len(tag)], tag) {
				out = append(out, Remark{Span{at, at + len(tag)}, message, fix})
				break
			}
		}
	}
	return out
}

// maxRemarks limits the remarks of one check about one text.
const maxRemarks = 10

// leakWords is the number of consecutive words that count as a quotation of the
// prompt.
const leakWords = 12

// CheckPrompt looks for twelve consecutive words of the system prompt in s.
func CheckPrompt(s, system string) []Remark {
	secret := wordHashes(system, Words(system))
	if len(secret) < leakWords {
		return nil
	}
	known := map[uint64]bool{}
	var some [64]uint64 // a bit set over the hashes: most runs need no map lookup
	for run := range runs(secret) {
		known[run] = true
		some[run>>58] |= 1 << (run >> 52 & 63)
	}
	words := Words(s)
	at := 0
	for run := range runs(wordHashes(s, words)) {
		if some[run>>58]>>(run>>52&63)&1 == 1 && known[run] {
			return []Remark{{Span{words[at].Start, words[at+leakWords-1].End}, "the text repeats the system prompt",
				"leave the instructions out"}}
		}
		at++
	}
	return nil
}

// wordHashes hashes words, ignoring case.
func wordHashes(s string, words []Span) []uint64 {
	const prime = 1099511628211 // FNV-1a, over characters
	out := make([]uint64, len(words))
	for i, w := range words {
		h := uint64(14695981039346656037)
		for j := w.Start; j < w.End; {
			if c := s[j]; c < utf8.RuneSelf {
				if 'A' <= c && c <= 'Z' {
					c += 'a' - 'A'
				}
				h = (h ^ uint64(c)) * prime
				j++
				continue
			}
			r, size := utf8.DecodeRuneInString(s[j:])
			h = (h ^ uint64(unicode.ToLower(r))) * prime
			j += size
		}
		out[i] = h
	}
	return out
}

// runs yields a rolling polynomial hash of each run of leakWords words.
func runs(words []uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		const base = 0x9E3779B97F4A7C15
		power, h := uint64(1), uint64(0)
		for range leakWords {
			power *= base
		}
		for i, w := range words {
			h = h*base + w
			if i >= leakWords {
				h -= power * words[i-leakWords]
			}
			if i >= leakWords-1 && !yield(h) {
				return
			}
		}
	}
}

// secretForms are known prefixes of keys, with the minimum number of letters
// and digits that follow.
var secretForms = [...]struct {
	prefix string
	least  int
	what   string
}{
	{"AKIA", 16, "an access key"}, {"ASIA", 16, "an access key"},
	{"ghp_", 30, "an access token"}, {"gho_", 30, "an access token"}, {"ghs_", 30, "an access token"}, {"ghu_", 30, "an access token"}, {"github_pat_", 30, "an access token"},
	{"glpat-", 18, "an access token"}, {"npm_", 30, "an access token"}, {"hf_", 30, "an access token"},
	{"sk-", 20, "an API key"}, {"sk_live_", 16, "an API key"}, {"rk_live_", 16, "an API key"}, {"AIza", 30, "an API key"}, {"SG.", 30, "an API key"},
	{"xoxb-", 16, "an access token"}, {"xoxp-", 16, "an access token"}, {"xoxa-", 16, "an access token"},
	{"eyJ", 60, "a signed token"},
}

// CheckSecrets looks for text that has the form of a key, token or password.
func CheckSecrets(s string) []Remark {
	var out []Remark
	add := func(from, end int, what string) {
		if len(out) < maxRemarks {
			out = append(out, Remark{Span{from, end}, "the text holds what looks like " + what, "leave it out"})
		}
	}
	for _, form := range secretForms {
		for from := 0; ; {
			i := strings.Index(s[from:], form.prefix)
			if i < 0 {
				break
			}
			i += from
			from = i + len(form.prefix)
			if i > 0 && keyByte(s[i-1]) {
				continue
			}
			end := from
			for end < len(s) && (keyByte(s[end]) || form.least >= 60 && s[end] == '.') {
				end++
			}
			if end-from >= form.least && !placeholder(s[from:end]) {
				add(i, end, form.what)
			}
		}
	}
	for from := 0; ; {
		i := strings.Index(s[from:], "-----BEGIN ")
		if i < 0 {
			break
		}
		i += from
		from = i + len("-----BEGIN ")
		if line := s[from:lineEnd(s, from)]; strings.Contains(line, "PRIVATE KEY-----") {
			add(i, from+len(line), "a private key")
		}
	}
	return append(out, assigned(s, maxRemarks-len(out))...)
}

func keyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

var secretNames = [...]string{"password", "passwd", "pwd", "secret", "api_key", "apikey", "api-key", "access_token",
	"auth_token", "secret_key", "client_secret", "private_key", "hasło", "passwort", "kennwort", "contraseña",
	"mot_de_passe"}

// assigned finds assignments to names of secrets.
func assigned(s string, most int) []Remark {
	var out []Remark
	for i := 0; i < len(s) && len(out) < most; i++ {
		if s[i] != '=' && s[i] != ':' {
			continue
		}
		if i == 0 || s[i-1] == s[i] || s[i-1] == '/' {
			continue
		}
		name := strings.ToLower(strings.TrimRight(s[max(0, i-40):i], " \t\"'*`"))
		named := false
		for _, n := range secretNames {
			named = named || strings.HasSuffix(name, n)
		}
		if !named {
			continue
		}
		from := i + 1
		for from < len(s) && (s[from] == ' ' || s[from] == '=' || s[from] == '"' || s[from] == '\'' || s[from] == '`' || s[from] == '*') {
			from++
		}
		end := from
		for end < len(s) && s[end] > ' ' && strings.IndexByte("\"'`,;)", s[end]) < 0 {
			end++
		}
		if value := strings.TrimRight(s[from:end], ".*"); len(value) >= 8 && mixed(value) && !placeholder(value) {
			out = append(out, Remark{Span{from, from + len(value)}, "the text holds what looks like a password or key",
				"leave it out"})
		}
		i = max(i, end-1)
	}
	return out
}

// mixed reports whether a text mixes letters with digits or marks, unlike a
// word.
func mixed(s string) bool {
	letters, others := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf:
			letters = true
		case c >= '0' && c <= '9', strings.IndexByte("!#$%&*+@^~", c) >= 0:
			others = true
		}
	}
	return letters && others
}

// placeholder reports whether a value is a placeholder.
func placeholder(s string) bool {
	lower := strings.ToLower(s)
	for _, sign := range [...]string{"xxxx", "your", "example", "placeholder", "changeme", "change_me", "change-me", "redacted", "****", "....", "<", "${", "$(", "{{", "os.getenv", "getenv", "process.env", "secret(", "env:", "123456789012345", "abcdefgh"} {
		if strings.Contains(lower, sign) {
			return true
		}
	}
	return strings.Trim(s, s[:1]) == ""
}
