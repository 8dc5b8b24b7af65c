package plugins

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Key is a hash of the inputs of a process of the plugin: the attributes of class
// language.ReloadPlugin, the resolved config with keyed hashes of secrets and hashes of the files
// that it names, and the hash of the program. view.Compare reports a plugin as replaced if its key
// changed, and Config.Answers includes it. The daemon does not use it: Supervisor.Plan of package
// adapters/plugin selects the processes that a reload replaces.
func (p Plugin) Key() string { return p.key }

// maxReadHash is the maximum size of a file whose content is hashed. A larger file is identified by
// size and modification time.
const maxReadHash = 16 << 20

// identify sets the key of a plugin.
func (r *Reader) identify(s *decode.Section, p *Plugin) {
	p.hashes = make(map[string]string, len(p.Reads))
	var files []edn.Value
	for _, name := range p.Reads {
		p.hashes[name] = hashRead(name)
		files = append(files, edn.Text(p.hashes[name]))
	}
	var secrets []edn.Value
	for _, x := range p.Secrets {
		secrets = append(secrets, edn.Vector(edn.Vector(x.Path...), edn.Text(x.Secret.String()),
			edn.Text(r.print(x.Secret))))
	}
	config := edn.Nil()
	if p.Lowered != nil {
		config = p.Resolved(r.printer())
	} else if n := ConfigBlock(s); n != nil {
		config = edn.Text(BodyText(n))
	}
	p.key = edn.Hash(edn.Vector(r.ofClass(s, language.ReloadPlugin), config, edn.Vector(secrets...), edn.Vector(files...),
		edn.Text(p.Binary)))
}

// ofClass returns the values of a block that have a reload class.
func (r *Reader) ofClass(s *decode.Section, class language.Reload) edn.Value {
	var b edn.MapBuilder
	for i := range s.Node.Spec.Attrs {
		if spec := &s.Node.Spec.Attrs[i]; spec.Reload == class {
			b.Set(edn.Text(spec.Name), r.printer().Portable(s.Attrs[spec.Name]))
		}
	}
	for _, inner := range s.Blocks {
		if !inner.Node.Spec.Foreign {
			b.Set(diag.Words(inner.Below(nil)), r.ofClass(inner, class))
		}
	}
	return b.Map()
}

// hashRead returns a hash of the content of a file; empty if it is not a regular file or cannot be
// read.
func hashRead(name string) string {
	info, err := disk.Regular(os.Stat(name))
	switch {
	case err != nil:
		return ""
	case info.Size() > maxReadHash:
		return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxReadHash+1)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// print returns the keyed hash of a secret; empty if it was not read or the load has no key.
func (r *Reader) print(s expression.Secret) string { return r.Prints[s.Handle()] }

// ReadHash returns the hash of a file in Reads; empty for other files.
func (p *Plugin) ReadHash(name string) string { return p.hashes[name] }

// fingerprint records a keyed hash of a secret.
func (r *Reader) fingerprint(s expression.Secret, text string) {
	if len(r.Options.Key) == 0 {
		return
	}
	mac := hmac.New(sha256.New, r.Options.Key)
	_, _ = mac.Write([]byte(text)) // never fails
	r.Prints[s.Handle()] = hex.EncodeToString(mac.Sum(nil))
}

// Resolved returns the config of a plugin with handles for secrets and paths relative to the root.
func (p *Plugin) Resolved(with decode.Printer) edn.Value {
	var secrets []edn.Value
	for _, s := range p.Secrets {
		secrets = append(secrets, edn.Vector(edn.Vector(s.Path...), edn.Text(with.Handle(s.Secret))))
	}
	v, err := p.Config.Walk(nil, func(v edn.Value) edn.Value { return p.Shown(with, v, nil) })
	if err != nil {
		v = p.Config // nested too deeply to be walked
	}
	return edn.Vector(v, edn.Vector(secrets...))
}

// Shown returns a value of the config of a plugin for display: the handle of s if v is that secret
// (otherwise s is nil), and files that the config names relative to the root.
func (p *Plugin) Shown(with decode.Printer, v edn.Value, s *expression.Secret) edn.Value {
	if s != nil {
		return edn.Text(with.Handle(*s))
	}
	if text, ok := v.AsString(); ok && slices.Contains(p.Reads, text) {
		return edn.Text(disk.PrintedName(with.Root, text))
	}
	if v.IsVector() {
		items := make([]edn.Value, 0, v.Len())
		for x := range v.Elems() {
			items = append(items, p.Shown(with, x, nil))
		}
		return edn.Vector(items...)
	}
	return v
}

// SecretAt returns the secret at a path of the configuration; nil if there is none.
func (p *Plugin) SecretAt(path []edn.Value) *expression.Secret {
	for i := range p.Secrets {
		if slices.EqualFunc(p.Secrets[i].Path, path, edn.Equal) {
			return &p.Secrets[i].Secret
		}
	}
	return nil
}
