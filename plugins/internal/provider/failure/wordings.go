package failure

import (
	"regexp"
	"strings"
)

// wording is the common wording of the bodies of a failure, for servers whose status does not show
// it.
type wording struct {
	row   Row
	codes []string // parts of codes
	says  []string // parts of messages, in lower case
}

// wordings returns the failures that a body names. The first one that fits holds. The tests name the
// server of each wording.
func wordings() []wording {
	return []wording{
		{
			row: Refused,
			codes: []string{
				"content_filter", "content_policy", "responsibleaipolicyviolation", "bio_policy", "data_inspection", moderated,
			},
			says: []string{
				"input was flagged", "flagged as potentially violating", "content filtering policy", "content exists risk",
				"may contain inappropriate content", "request blocked:",
			},
		},
		{
			row:   QuotaExhausted,
			codes: []string{"arrearage"},
			says: []string{
				"credit balance is too low", "insufficient balance", "exceeded your current quota", "specified api usage limits", "key limit exceeded", "overdue account",
				"account is in good standing",
			},
		},
		{
			row:   AuthFailed,
			codes: []string{"api_key_invalid", "invalid_api_key", "authentication_error"},
			says:  []string{"api key not valid", "api key not found", "incorrect api key", "invalid api key", "api key expired"},
		},
		{
			row: Unsayable,
			says: []string{
				"does not support tools", "support tool use", "--enable-auto-tool-choice", "image input is not supported",
				"support image input", "is not a multimodal model",
			},
		},
		{
			row:   ModelNotFound,
			codes: []string{"model_not_found", "model_not_available", "unknown_model", "invalid_model", "model_decommissioned"},
			says:  []string{"has been decommissioned"},
		},
		{row: ToolCallInvalid, codes: []string{"tool_use_failed"}},
		{row: ProviderError, says: []string{"no models loaded", "the model has crashed", "channel error", "failed to load model"}},
		{row: Forbidden, says: []string{"location is not supported"}},
	}
}

// moderated is the code of a body that says which part of the request was flagged.
const moderated = "flagged_input"

// echo matches the beginning of what servers repeat of a request or of an answer in a message, but no
// index in a name of a field; quoted a text in quotation marks, such as the name of a tool. A text that
// was cut has no closing mark.
var (
	echo      = regexp.MustCompile(`(?i)\[\d*(?:[^\d\]]|$)|\[\]|\{|\braw=|[(,;] ?input:|failed to parse input`)
	fieldName = regexp.MustCompile("['\"`](?:inputs|max_new_tokens|stream)['\"`]$")
	quoted    = regexp.MustCompile("(^|[\\s(:=,])(?:'[^']*(?:'|$)|\"[^\"]*(?:\"|$)|`[^`]*(?:`|$))")
)

// gateway matches what a gateway writes before the error of a provider, wrapped that error as JSON or as
// Python prints it; the group is its message, in quotation marks.
var (
	gateway = regexp.MustCompile(`(?i)(?:error|exception|error code: \d+) - (?:b?['"])?$`)
	wrapped = regexp.MustCompile(`^\[?\s*\{\s*(?:["'](?:type|object)["']:\s*["']error["'],\s*)?` +
		`(?:["']error["']:\s*\{[^{}]*?)?["']message["']:\s*("(?:[^"\\]|\\.)*|'(?:[^'\\]|\\.)*)`)
	unescape = strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`, `\n`, " ", `\u003e`, ">", `\u003c`, "<")
)

// Own returns the message without the words of a user or a model that it repeats, of which none may
// decide about the failure. The names of fields that the server itself quotes remain, and so does the
// message of an error that a gateway repeats.
func (r Report) Own() string { return own(r.Message) }

func own(message string) string {
	head, rest := message, ""
	if at := echo.FindStringIndex(message); at != nil {
		head, rest = message[:at[0]], message[at[0]:]
	}
	head = quoted.ReplaceAllStringFunc(head, func(part string) string {
		if fieldName.MatchString(part) {
			return part
		}
		return " "
	})
	if inner := wrapped.FindStringSubmatch(rest); inner != nil && gateway.MatchString(head) {
		return head + own(unescape.Replace(inner[1][1:]))
	}
	return head
}

// named returns the failure that the body names, ok is false if it names none.
func (r Report) named() (row Row, ok bool) {
	for _, w := range wordings() {
		if r.Words != "" && len(w.codes) > 0 && r.has(w.codes...) || r.says(w.says...) {
			return w.row, true
		}
	}
	return 0, false
}
