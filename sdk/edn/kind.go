package edn

// Kind is the kind of a Value.
type Kind uint8

// The kinds of values. KindNil is the zero Kind, as nil is the zero Value.
const (
	KindNil Kind = iota
	KindBool
	KindInt
	KindFloat
	KindDecimal
	KindString
	KindChar
	KindKeyword
	KindSymbol
	KindList
	KindVector
	KindMap
	KindSet
	KindTagged
	KindInst
	KindUUID
)

var kindNames = [...]string{
	KindNil:     "nil",
	KindBool:    "boolean",
	KindInt:     "integer",
	KindFloat:   "float",
	KindDecimal: "decimal",
	KindString:  "string",
	KindChar:    "character",
	KindKeyword: "keyword",
	KindSymbol:  "symbol",
	KindList:    "list",
	KindVector:  "vector",
	KindMap:     "map",
	KindSet:     "set",
	KindTagged:  "tagged",
	KindInst:    "inst",
	KindUUID:    "uuid",
}

// String returns the name of the kind in messages, such as "keyword".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// isCollection reports whether values of kind k hold a node with elements.
func (k Kind) isCollection() bool { return k >= KindList && k <= KindSet }
