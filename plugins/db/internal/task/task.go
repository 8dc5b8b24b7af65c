package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// The drivers of connections.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Connection is a database that the configuration names.
type Connection struct {
	Driver string
	Path   string // of an SQLite database
	DSN    string // connection string of PostgreSQL
}

// Task is one call of a database tool.
type Task struct {
	Tool  effects.Tool
	Input edn.Value
	Scope effects.Scope
	// Key is the effect key of the call.
	Key string
	// Strict rejects a call that the kernel cannot confine.
	Strict bool
	// Connections are the connections of the configuration, by name.
	Connections map[string]Connection

	work effects.Work // the parsed input
}

// Parts checks the call against its scope and returns it in the two parts that a worker reads. The
// error is that of an invalid input, of a call beyond the scope, or of an unknown connection.
func (t *Task) Parts() (worker.Task, *contract.Error) {
	if err := t.Tool.Permit(t.Input, &t.Scope); err != nil {
		return worker.Task{}, err
	}
	work, err := t.Tool.Work(t.Input, &t.Scope)
	if err != nil {
		return worker.Task{}, err
	}
	if t.work = work; t.Tool.Effect == "db/write" && t.Key == "" {
		return worker.Task{}, contract.Errorf("runtime/internal", ":%s: the call has no effect key", t.Tool.ID)
	}
	if _, err := typesOf(t.Tool, t.Input); err != nil {
		return worker.Task{}, err
	}
	c, ok := t.Connections[work.Connection]
	if !ok {
		return worker.Task{}, result.Faultf(result.Missing, "the configuration has no connection of this name").
			Error(t.Tool, work.Connection)
	}
	return worker.Task{Tool: t.Tool, Rules: t.rules(c), Call: edn.MustMap(edn.K("input"), t.Input)}, nil
}

func (t *Task) rules(c Connection) edn.Value {
	return edn.MustMap(
		edn.K("tool"), edn.K(t.Tool.ID), edn.K("scope"), t.Scope.Value(t.Tool.Effect), edn.K("strict?"), edn.Bool(t.Strict),
		edn.K("key"), edn.Text(t.Key), edn.K("connection"), edn.Text(t.work.Connection),
		edn.K("driver"), edn.Text(c.Driver), edn.K("path"), edn.Text(c.Path), edn.K("dsn"), edn.Text(c.DSN),
		edn.K("timeout-ms"), edn.Int(t.work.Timeout.Milliseconds()))
}

// taskFrom parses the rules. timeout is in milliseconds.
func taskFrom(v edn.Value) (t *Task, c Connection, timeout int64, err error) {
	t = &Task{Strict: v.Key("strict?").Truthy()}
	name, _ := v.Key("tool").AsKeyword()
	var ok bool
	if t.Tool, ok = effects.ToolNamed(name); !ok {
		return nil, c, 0, fmt.Errorf("unknown tool %q", name)
	}
	var problems []effects.Problem
	if t.Scope, problems = effects.ParseScope(t.Tool.Effect, v.Key("scope")); len(problems) > 0 {
		return nil, c, 0, errors.New(problems[0].String())
	}
	t.Key, _ = v.Key("key").AsString()
	t.work.Connection, _ = v.Key("connection").AsString()
	c.Driver, _ = v.Key("driver").AsString()
	c.Path, _ = v.Key("path").AsString()
	c.DSN, _ = v.Key("dsn").AsString()
	timeout, ok = v.Key("timeout-ms").AsInt()
	if !ok {
		return nil, c, 0, errors.New("the rules have no integer :timeout-ms")
	}
	return t, c, timeout, nil
}

// learn parses the call. It rejects a call that uses another connection than the rules.
func (t *Task) learn(v edn.Value) *contract.Error {
	t.Input = v.Key("input")
	work, err := t.Tool.Work(t.Input, &t.Scope)
	if err != nil {
		return err
	}
	if work.Connection != t.work.Connection {
		return contract.Errorf("runtime/internal", ":%s: the call uses connection %s, but the worker is confined to %s",
			t.Tool.ID, work.Connection, t.work.Connection)
	}
	t.work = work
	return nil
}

// typesOf returns the :types of an input: for each column, the name of the type to which its values
// are converted. nil if there are none.
func typesOf(tool effects.Tool, input edn.Value) (map[string]string, *contract.Error) {
	v := input.Key("types")
	if v.IsNil() {
		return nil, nil
	}
	if !v.IsMap() {
		return nil, effects.InvalidInput("schema", tool, "expected a map from column to type in :types, found a %s",
			v.Kind())
	}
	types := map[string]string{}
	for key, val := range v.Entries() {
		as := word(val)
		if !slices.Contains(result.Types, as) {
			return nil, effects.InvalidInput("schema", tool, "the type %s in :types is not one of %s", val,
				strings.Join(result.Types, ", "))
		}
		types[word(key)] = as
	}
	return types, nil
}

// word returns the text of a keyword or a string.
func word(v edn.Value) string {
	if name, ok := v.AsKeyword(); ok {
		return name
	}
	text, _ := v.AsString()
	return text
}

// Timeout returns the time limit of the call. Parts must have succeeded before it is called.
func (t *Task) Timeout() time.Duration { return t.work.Timeout }
