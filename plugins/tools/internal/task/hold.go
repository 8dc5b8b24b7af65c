package task

import (
	"context"
	"crypto/x509"
	"os"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/plugins/tools/internal/files"
	"github.com/fermenthq/ferment/plugins/tools/internal/web"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Hold opens the files that a task needs and confines this process to its rules. The confinement
// cannot be ended. The caller must close the result.
func Hold(rules edn.Value) (worker.Held, error) {
	t, err := taskFrom(rules)
	if err != nil {
		return nil, err
	}
	h, failed := t.hold()
	if failed != nil {
		return nil, failed
	}
	return &confined{task: t, held: h}, nil
}

// confined is a process that is confined to the rules of a task.
type confined struct {
	task *Task
	held held
}

// Do parses and executes the call. It rejects a call that does not match the rules.
func (c *confined) Do(ctx context.Context, call edn.Value) (edn.Value, *contract.Error) {
	if failed := c.task.learn(call); failed != nil {
		return edn.Nil(), failed
	}
	return c.task.do(ctx, c.held)
}

// Close closes the files that are still open.
func (c *confined) Close() { c.held.close() }

// held holds the resources that a worker opened before it was confined.
type held struct {
	base  *files.Base    // for a file tool
	roots *x509.CertPool // for a request, besides those of the system
}

func (h held) close() {
	if h.base != nil {
		h.base.Close()
	}
}

// hold opens the files that the tool needs and confines this process to the rules.
func (t *Task) hold() (held, *contract.Error) {
	switch t.Tool.ID {
	case "fs/read-file", "fs/list", "fs/write-file":
		return t.holdFile()
	case "net/http-request":
		return t.holdRequest()
	}
	return held{}, contract.Errorf("effects/unsupported-tool", ":%s: the worker does not support this tool", t.Tool.ID)
}

// do executes the call with the resources that hold returned.
func (t *Task) do(ctx context.Context, h held) (edn.Value, *contract.Error) {
	switch t.Tool.ID {
	case "fs/list":
		return h.base.List(t.place)
	case "fs/write-file":
		return h.base.Write(t.place, t.Input, &t.Scope, t.Key)
	case "fs/read-file":
		return h.base.Read(t.place, t.Input, &t.Scope)
	}
	c := web.Client{Tool: t.Tool, Scope: &t.Scope, Secrets: t.Secrets, Key: t.Key, Roots: h.roots}
	return c.Do(ctx, t.Input)
}

func (t *Task) holdFile() (held, *contract.Error) {
	writes := t.Tool.Effect == "fs/write"
	base, err := files.Open(t.Tool, t.place, writes && t.makeDirs)
	if err != nil {
		return held{}, err
	}
	p := confine.Policy{ReadPaths: []string{base.Path()}, Limits: confine.ResourceLimits{OpenFiles: 64}}
	if writes {
		p.ReadPaths, p.WritePaths = nil, p.ReadPaths
	}
	if err := worker.Confine(t.Tool, p, t.Strict); err != nil {
		base.Close()
		return held{}, err
	}
	return held{base: base}, nil
}

func (t *Task) holdRequest() (held, *contract.Error) {
	var h held
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return held{}, contract.Errorf("effects/runtime-missing", ":%s: read the certificates: %w", t.Tool.ID, err).
				WithHint("correct ca_file in the config block of the plugin")
		}
		if h.roots, err = x509.SystemCertPool(); err != nil {
			h.roots = x509.NewCertPool()
		}
		if !h.roots.AppendCertsFromPEM(pem) {
			return held{}, contract.Errorf("effects/runtime-missing", ":%s: %s contains no certificate in PEM form",
				t.Tool.ID, t.CAFile).WithHint("correct ca_file in the config block of the plugin")
		}
	}
	p := confine.Policy{Network: confine.Ports, Limits: confine.ResourceLimits{OpenFiles: 64, FileSize: 1}}
	for _, port := range t.Scope.Ports.V {
		p.ConnectPorts = append(p.ConnectPorts, uint16(port))
	}
	p.ConnectPorts = append(p.ConnectPorts, 53) // for DNS answers that do not fit a datagram
	if err := worker.Confine(t.Tool, p, t.Strict); err != nil {
		return held{}, err
	}
	return h, nil
}
