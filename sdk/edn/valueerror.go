package edn

import "strconv"

// ValueError is the reason why a value could not be made. Code is a code of
// SyntaxError, such as "invalid-name", or "wrong-kind" or "wrong-index" for an
// operation that the value does not support.
type ValueError struct {
	Kind    Kind
	Code    string
	Message string
}

// Error returns "edn: make <kind>: <message>".
func (e *ValueError) Error() string { return "edn: make " + e.Kind.String() + ": " + e.Message }

func depthError(k Kind) *ValueError {
	return &ValueError{Kind: k, Code: "limit-depth", Message: "nested deeper than " + strconv.Itoa(MaxDepth)}
}

// must returns v or panics, for callers that guarantee a valid argument.
func must(v Value, err error) Value {
	if err != nil {
		panic(err)
	}
	return v
}

// MustFloat is Float for finite numbers; it panics otherwise.
func MustFloat(f float64) Value { return must(Float(f)) }

// MustDecimal is ParseDecimal for literals; it panics if s is not a decimal.
func MustDecimal(s string) Value { return must(ParseDecimal(s)) }

// MustString is String for valid UTF-8; it panics otherwise.
func MustString(s string) Value { return must(String(s)) }

// MustChar is Char for valid code points; it panics otherwise.
func MustChar(r rune) Value { return must(Char(r)) }

// MustKeyword is Keyword for literals; it panics if name is not a valid keyword
// name.
func MustKeyword(name string) Value { return must(Keyword(name)) }

// K is MustKeyword under a short name, for literals in code.
func K(name string) Value { return must(Keyword(name)) }

// MustSymbol is Symbol for literals; it panics if name is not a valid symbol
// name.
func MustSymbol(name string) Value { return must(Symbol(name)) }

// MustSet is Set for distinct members; it panics otherwise.
func MustSet(members ...Value) Value { return must(Set(members)) }

// MustMap returns a map of alternating keys and values. It panics with a
// *ValueError on an odd number of arguments, on equal keys and beyond MaxDepth.
func MustMap(keysAndValues ...Value) Value {
	if len(keysAndValues)%2 != 0 {
		panic(&ValueError{Kind: KindMap, Code: "odd-map", Message: "odd number of keys and values"})
	}
	return must(mapOf(copyNode(keysAndValues)))
}

// MustTagged is Tagged for literals; it panics if the tag or its value is
// rejected.
func MustTagged(tag string, v Value) Value { return must(Tagged(tag, v)) }

// MustRead is ReadString for literals; it panics if the text is rejected.
func MustRead(text string) Value { return must(ReadString(text)) }
