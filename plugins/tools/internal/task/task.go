package task

import (
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/plugins/tools/internal/web"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Task is one call of a file or request tool.
type Task struct {
	Tool  effects.Tool
	Input edn.Value
	Scope effects.Scope
	// Key is the effect key of the call.
	Key string
	// Strict rejects a call that the kernel cannot confine.
	Strict bool
	// Secrets are the secrets that the input names. CAFile holds certificates
	// that are trusted in addition to those of the system.
	Secrets map[string]web.Secret
	CAFile  string

	// place is the location at which a file tool works, and makeDirs permits it to create the
	// directory; permit sets both.
	place    effects.Place
	makeDirs bool
}

// Parts checks the call against its scope and returns it in the two parts that a worker reads.
func (t *Task) Parts() (worker.Task, *contract.Error) {
	rules, err := t.rules()
	if err != nil {
		return worker.Task{}, err
	}
	return worker.Task{Tool: t.Tool, Rules: rules, Call: t.call()}, nil
}

// rules returns the part of the task by which the worker is confined: the tool,
// its scope, and the place of a file tool.
func (t *Task) rules() (edn.Value, *contract.Error) {
	if err := t.permit(); err != nil {
		return edn.Nil(), err
	}
	return edn.MustMap(
		edn.K("tool"), edn.K(t.Tool.ID), edn.K("scope"), t.Scope.Value(t.Tool.Effect), edn.K("strict?"), edn.Bool(t.Strict),
		edn.K("ca-file"), edn.Text(t.CAFile), edn.K("root"), edn.Text(t.place.Root), edn.K("path"), edn.Text(t.place.Path),
		edn.K("allow"), edn.Text(t.place.Allow), edn.K("mkdirs?"), edn.Bool(t.makeDirs)), nil
}

// permit checks the call against its scope and sets the place of a file tool.
func (t *Task) permit() *contract.Error {
	if err := t.Tool.Permit(t.Input, &t.Scope); err != nil {
		return err
	}
	if t.Tool.Effect != "fs/read" && t.Tool.Effect != "fs/write" {
		return nil
	}
	place, err := t.Tool.Place(t.Input, &t.Scope)
	t.place, t.makeDirs = place, t.Input.Key("mkdirs?").Truthy()
	return err
}

// call returns the part of the task that a worker reads after its confinement: the input, the key
// and the secrets.
func (t *Task) call() edn.Value {
	var secrets edn.MapBuilder
	for name, s := range t.Secrets {
		hosts := make([]edn.Value, len(s.Hosts))
		for i, h := range s.Hosts {
			hosts[i] = edn.Text(h)
		}
		secrets.Set(edn.Text(name), edn.MustMap(edn.K("value"), edn.Text(s.Value), edn.K("header"), edn.Text(s.Header),
			edn.K("hosts"), edn.Vector(hosts...)))
	}
	return edn.MustMap(edn.K("input"), t.Input, edn.K("key"), edn.Text(t.Key), edn.K("secrets"), secrets.Map())
}

// taskFrom parses the map that rules returns.
func taskFrom(v edn.Value) (*Task, error) {
	t := &Task{Strict: v.Key("strict?").Truthy(), makeDirs: v.Key("mkdirs?").Truthy()}
	name, _ := v.Key("tool").AsKeyword()
	var ok bool
	if t.Tool, ok = effects.ToolNamed(name); !ok {
		return nil, fmt.Errorf("unknown tool %q", name)
	}
	scope, problems := effects.ParseScope(t.Tool.Effect, v.Key("scope"))
	if len(problems) > 0 {
		return nil, errors.New(problems[0].String())
	}
	t.Scope = scope
	t.CAFile, _ = v.Key("ca-file").AsString()
	t.place.Root, _ = v.Key("root").AsString()
	t.place.Path, _ = v.Key("path").AsString()
	t.place.Allow, _ = v.Key("allow").AsString()
	return t, nil
}

// learn parses the call. A call that does not match the rules is rejected,
// although the kernel would confine it to these.
func (t *Task) learn(v edn.Value) *contract.Error {
	t.Input, t.Secrets = v.Key("input"), map[string]web.Secret{}
	t.Key, _ = v.Key("key").AsString()
	for key, s := range v.Key("secrets").Entries() {
		name, _ := key.AsString()
		t.Secrets[name] = web.SecretFrom(s)
	}
	place, makeDirs := t.place, t.makeDirs
	if err := t.permit(); err != nil {
		return err
	}
	if t.place != place || t.makeDirs != makeDirs {
		return contract.Errorf("runtime/internal",
			":%s: the call addresses %s in %s, but the worker is confined to %s in %s",
			t.Tool.ID, t.place.Path, t.place.Root, place.Path, place.Root)
	}
	return nil
}
