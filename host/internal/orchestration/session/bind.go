package session

// Binding fills a part of a request from a session variable (SES-014).
type Binding struct {
	Var      string
	Target   []string // path of keywords in the request
	Coerce   string   // see Coercions
	Required bool
}

// Coercions are the names of the conversions of bound values.
func Coercions() []string {
	return []string{"identity", "keyword", "string", "trimmed-string", "keyword-or-string"}
}

// ShippedBindings returns the bindings that every configuration has.
func ShippedBindings() []Binding {
	return []Binding{
		{Var: "session/language", Target: []string{"constraints", "language"}, Coerce: "keyword"},
		{Var: "session/style", Target: []string{"constraints", "style"}, Coerce: "keyword"},
		{Var: "session/system-prompt", Target: []string{"input", "system"}, Coerce: "trimmed-string"},
		{Var: "session/context-summary", Target: []string{"context", "summary"}, Coerce: "trimmed-string"},
	}
}
