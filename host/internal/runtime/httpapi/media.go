package httpapi

import (
	"cmp"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

// mediaType is a media type of bodies.
type mediaType string

const (
	typeJSON mediaType = "application/json"
	typeEDN  mediaType = "application/edn"
	typeText mediaType = "text/plain"
	typeSSE  mediaType = "text/event-stream"
)

// negotiate selects the response format from the Accept headers: JSON unless EDN has a higher
// weight. The weight of a format is that of the most specific range that matches it. On routes that
// can respond with or without events, events must be named explicitly with at least the weight of
// both formats; on routes that always stream, the format is that of errors. ok is false if no
// format is acceptable.
func negotiate(h http.Header, support eventSupport) (form mediaType, events, ok bool) {
	values := h.Values("Accept")
	if len(values) == 0 {
		return typeJSON, support == eventsAlways, true
	}
	var weight, precision [2]float64
	live := 0.0
	for _, part := range strings.Split(strings.Join(values, ","), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil || q < 0 || q > 1 {
				continue
			}
		}
		if support != eventsNever && name == string(typeSSE) ||
			support == eventsAlways && (name == "*/*" || name == "text/*") {
			live = max(live, q)
		}
		for i, form := range []mediaType{typeJSON, typeEDN} {
			if p := covers(name, form); p > precision[i] || p > 0 && p == precision[i] && q > weight[i] {
				precision[i], weight[i] = p, q
			}
		}
	}
	if weight[1] > weight[0] {
		form = typeEDN
	} else {
		form = typeJSON
	}
	if support == eventsAlways {
		return form, live > 0, live > 0
	}
	best := max(weight[0], weight[1])
	return form, live > 0 && live >= best, best > 0 || live > 0
}

// bare returns a media type without its parameters.
func (t mediaType) bare() string {
	name, _, _ := strings.Cut(string(t), ";")
	return name
}

// acceptsText reports whether the Accept headers permit a media type.
func acceptsText(h http.Header, form mediaType) bool {
	kind, _, _ := strings.Cut(form.bare(), "/")
	values := h.Values("Accept")
	if len(values) == 0 {
		return true
	}
	weight, precision := 0.0, 0
	for _, part := range strings.Split(strings.Join(values, ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		p := map[string]int{form.bare(): 3, kind + "/*": 2, "*/*": 1}[name]
		q, err := strconv.ParseFloat(cmp.Or(params["q"], "1"), 64)
		if err == nil && (p > precision || p > 0 && p == precision && q > weight) {
			precision, weight = p, q
		}
	}
	return weight > 0
}

// covers returns how specifically a media range matches a format: 3, 2 or 1; 0 if it does not
// match.
func covers(pattern string, form mediaType) float64 {
	switch pattern {
	case string(form):
		return 3
	case "application/*":
		return 2
	case "*/*":
		return 1
	}
	return 0
}

// contentType returns the format of a body, which must be one that the route
// accepts. A missing Content-Type means text on routes that accept text.
func contentType(h http.Header, takes []mediaType) (mediaType, *contract.Error) {
	if encoding := strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ", ")); encoding != "" &&
		!strings.EqualFold(encoding, "identity") {
		return "", contract.Errorf("http/unsupported-media-type", "content encoding %.40q is not supported", encoding).
			WithHint("send the body without encoding")
	}
	if n := len(h.Values("Content-Type")); n > 1 { // a proxy could use another one of them
		return "", unknownType("the request has "+strconv.Itoa(n)+" Content-Type headers", takes)
	}
	given := h.Get("Content-Type")
	if given == "" {
		if last := takes[len(takes)-1]; last == typeText {
			return last, nil
		}
		return "", unknownType("the body has no Content-Type", takes)
	}
	name, params, err := mime.ParseMediaType(given)
	if err != nil {
		return "", unknownType("the Content-Type cannot be read", takes)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return "", contract.Errorf("http/unsupported-media-type", "character set %.40q is not supported", charset).
			WithHint("send UTF-8")
	}
	for _, t := range takes {
		if name == string(t) {
			return t, nil
		}
	}
	return "", unknownType("media type "+strconv.Quote(truncate(name, 60))+" is not supported", takes)
}

func unknownType(what string, takes []mediaType) *contract.Error {
	names := make([]string, len(takes))
	for i, t := range takes {
		names[i] = string(t)
	}
	return contract.Errorf("http/unsupported-media-type", "%s", what).WithHint("send " + strings.Join(names, " or "))
}

func truncate(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}
