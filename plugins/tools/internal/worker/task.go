package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fermenthq/ferment/plugins/tools/internal/web"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Task is one call.
type Task struct {
	Tool  contract.Tool
	Input edn.Value
	Scope contract.Scope
	// Key is the effect key of the call.
	Key string
	// Strict refuses to act if the kernel cannot hold the call.
	Strict bool
	// Secrets are those that the input names. CAFile holds certificates that are
	// trusted besides those of the system.
	Secrets map[string]web.Secret
	CAFile  string
}

// maxTask bounds a task on its way.
const maxTask = 64 << 20

func (t *Task) value() edn.Value {
	var secrets edn.MapBuilder
	for name, s := range t.Secrets {
		hosts := make([]edn.Value, len(s.Hosts))
		for i, h := range s.Hosts {
			hosts[i] = edn.Text(h)
		}
		secrets.Set(edn.Text(name), edn.MustMap(edn.K("value"), edn.Text(s.Value), edn.K("header"), edn.Text(s.Header), edn.K("hosts"), edn.Vector(hosts...)))
	}
	return edn.MustMap(
		edn.K("tool"), edn.K(t.Tool.ID), edn.K("input"), t.Input, edn.K("scope"), t.Scope.Value(t.Tool.Effect),
		edn.K("key"), edn.Text(t.Key), edn.K("strict?"), edn.Bool(t.Strict), edn.K("secrets"), secrets.Map(),
		edn.K("ca-file"), edn.Text(t.CAFile))
}

func taskFrom(v edn.Value) (*Task, error) {
	t := &Task{Strict: v.Key("strict?").Truthy(), Input: v.Key("input"), Secrets: map[string]web.Secret{}}
	name, _ := v.Key("tool").AsKeyword()
	var ok bool
	if t.Tool, ok = contract.ToolNamed(name); !ok {
		return nil, fmt.Errorf("there is no tool %q", name)
	}
	scope, problems := contract.ParseScope(t.Tool.Effect, v.Key("scope"))
	if len(problems) > 0 {
		return nil, errors.New(problems[0].String())
	}
	t.Scope = scope
	t.Key, _ = v.Key("key").AsString()
	t.CAFile, _ = v.Key("ca-file").AsString()
	for key, s := range v.Key("secrets").Entries() {
		name, _ := key.AsString()
		t.Secrets[name] = web.SecretFrom(s)
	}
	return t, nil
}

// send writes a value with its length in front: the stream stays open, its end
// says that nobody waits any more.
func send(w io.Writer, v edn.Value) error {
	text := edn.Write(v)
	head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

func receive(r io.Reader) (edn.Value, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return edn.Nil(), err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxTask {
		return edn.Nil(), fmt.Errorf("a message of %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return edn.Nil(), err
	}
	return edn.Read(text, edn.WithLimits(edn.Stored))
}
