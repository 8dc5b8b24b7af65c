package effects

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

var (
	everyScope = []string{"db/read", "db/write", "fs/read", "fs/write", "net/http", "process/run"}
	fileScopes = []string{"fs/read", "fs/write"}
	writeScope = []string{"fs/write"}
	runScope   = []string{"process/run"}
	httpScope  = []string{"net/http"}
	dbScopes   = []string{"db/read", "db/write"}
	ddlScope   = []string{"db/write"}
	timedScope = []string{"net/http", "process/run", "db/read", "db/write"}
	bytesScope = []string{"fs/read", "fs/write", "net/http", "db/read", "db/write"}
)

// scopeFields is the table from which reading, writing and intersection of
// scopes are derived.
var scopeFields = []Field{
	{Key: "enabled", Kind: KindFlag, Effects: everyScope, flag: func(s *Scope) *Flag { return &s.Enabled }},

	{Key: "roots", Kind: KindFiles, Effects: fileScopes, names: func(s *Scope) *List[string] { return &s.Roots }},
	{Key: "allow", Kind: KindPrefixes, Effects: fileScopes, names: func(s *Scope) *List[string] { return &s.Allow }},
	{Key: "max-bytes", Kind: KindBytes, Effects: bytesScope, limit: func(s *Scope) *Bound { return &s.MaxBytes }},
	{Key: "mkdirs", Kind: KindFlag, Effects: writeScope, flag: func(s *Scope) *Flag { return &s.MkDirs }},
	{Key: "append", Kind: KindFlag, Effects: writeScope, flag: func(s *Scope) *Flag { return &s.Append }},

	{Key: "allow-commands", Kind: KindFiles, Effects: runScope, names: func(s *Scope) *List[string] { return &s.AllowCommands }},
	{Key: "allow-cwd", Kind: KindDirs, Effects: runScope, names: func(s *Scope) *List[string] { return &s.AllowCWD }},
	{Key: "arguments", Kind: KindArguments, Effects: runScope, rules: func(s *Scope) *List[ArgumentRule] { return &s.Arguments }},
	{Key: "env-pass", Kind: KindNames, Effects: runScope, names: func(s *Scope) *List[string] { return &s.EnvPass }},
	{Key: "timeout-ms", Kind: KindMillis, Effects: timedScope, limit: func(s *Scope) *Bound { return &s.Timeout }},
	{Key: "max-timeout-ms", Kind: KindMillis, Effects: runScope, limit: func(s *Scope) *Bound { return &s.MaxTimeout }},
	{Key: "max-output", Kind: KindBytes, Effects: runScope, limit: func(s *Scope) *Bound { return &s.MaxOutput }},
	{Key: "memory", Kind: KindBytes, Effects: runScope, limit: func(s *Scope) *Bound { return &s.Memory }},
	{Key: "processes", Kind: KindCount, Effects: runScope, limit: func(s *Scope) *Bound { return &s.Processes }},

	{Key: "hosts", Kind: KindHosts, Effects: httpScope, names: func(s *Scope) *List[string] { return &s.Hosts }},
	{Key: "schemes", Kind: KindNames, Effects: httpScope, names: func(s *Scope) *List[string] { return &s.Schemes }, change: strings.ToLower},
	{Key: "ports", Kind: KindPorts, Effects: httpScope, ports: func(s *Scope) *List[int] { return &s.Ports }},
	{Key: "methods", Kind: KindNames, Effects: httpScope, names: func(s *Scope) *List[string] { return &s.Methods }, change: strings.ToUpper},
	{Key: "redirects", Kind: KindCount, Effects: httpScope, limit: func(s *Scope) *Bound { return &s.Redirects }},
	{Key: "allow-private", Kind: KindFlag, Effects: httpScope, flag: func(s *Scope) *Flag { return &s.AllowPrivate }},
	{Key: "idempotency-header", Kind: KindWord, Effects: httpScope, word: func(s *Scope) *Word { return &s.IdempotencyHeader }},

	{Key: "connections", Kind: KindNames, Effects: dbScopes, names: func(s *Scope) *List[string] { return &s.Connections }},
	{Key: "max-rows", Kind: KindCount, Effects: dbScopes, limit: func(s *Scope) *Bound { return &s.MaxRows }},
	{Key: "ddl", Kind: KindFlag, Effects: ddlScope, flag: func(s *Scope) *Flag { return &s.DDL }},
}

// value returns the field as data, nil if it is unset.
func (f *Field) value(s *Scope) edn.Value {
	switch {
	case f.flag != nil:
		if v := f.flag(s); v.Set {
			return edn.Bool(v.V)
		}
	case f.limit != nil:
		if v := f.limit(s); v.Set {
			return edn.Int(v.N)
		}
	case f.names != nil:
		if v := f.names(s); v.Set {
			return vectorOf(v.V, edn.Text)
		}
	case f.ports != nil:
		if v := f.ports(s); v.Set {
			return vectorOf(v.V, func(p int) edn.Value { return edn.Int(int64(p)) })
		}
	case f.rules != nil:
		if v := f.rules(s); v.Set {
			return rulesValue(v.V)
		}
	case f.word != nil:
		if v := f.word(s); v.Set {
			return edn.Text(v.V)
		}
	}
	return edn.Nil()
}

func vectorOf[T any](list []T, of func(T) edn.Value) edn.Value {
	vs := make([]edn.Value, len(list))
	for i, x := range list {
		vs[i] = of(x)
	}
	return edn.Vector(vs...)
}

// rulesValue returns argument rules as a map from command to lists of patterns.
func rulesValue(rules []ArgumentRule) edn.Value {
	var b edn.MapBuilder
	for _, r := range rules {
		b.Set(edn.Text(r.Command), vectorOf(r.Patterns, func(alternatives []string) edn.Value {
			return vectorOf(alternatives, edn.Text)
		}))
	}
	return b.Map()
}
