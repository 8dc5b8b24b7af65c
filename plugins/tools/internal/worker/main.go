package worker

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fermenthq/ferment/plugins/tools/internal/files"
	"github.com/fermenthq/ferment/plugins/tools/internal/web"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Arg is the argument that makes the binary a worker: see Main.
const Arg = "internal-worker"

// Main runs the worker and returns the exit status.
//
// It reads its task in two steps: first the rules, by which the kernel confines
// it, then, confined, the call itself.
func Main(in io.Reader, out io.Writer) int {
	closeInherited()
	wholeModes()
	v, err := receive(in)
	if errors.Is(err, io.EOF) {
		return 0 // prestarted and not needed
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "no rules:", err)
		return 2
	}
	t, err := taskFrom(v)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bad rules:", err)
		return 2
	}
	answer := edn.Nil()
	held, failed := t.hold()
	if failed == nil {
		v, err := receive(in)
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "no call:", err)
			return 2
		}
		go func() { // no more input follows: its end means that the parent has gone
			_, _ = io.Copy(io.Discard, in)
			os.Exit(3)
		}()
		if failed = t.learn(v); failed == nil {
			answer, failed = t.do(context.Background(), held)
		}
		held.close()
	}
	reply := edn.MustMap(edn.K("out"), answer)
	if failed != nil {
		reply = edn.MustMap(edn.K("error"), failed.Value())
	}
	if err := send(out, reply); err != nil {
		return 2
	}
	return 0
}

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

// hold confines this process to the rules.
func (t *Task) hold() (held, *contract.Error) {
	switch t.Tool.ID {
	case "fs/read-file", "fs/list", "fs/write-file":
		return t.holdFile()
	case "net/http-request":
		return t.holdRequest()
	}
	return held{}, contract.Errorf("effects/unsupported-tool", ":%s: no worker does this", t.Tool.ID)
}

// do executes the call.
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
	if err := t.confine(p); err != nil {
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
			return held{}, contract.Errorf("effects/runtime-missing", ":%s: read the certificates: %w", t.Tool.ID, err)
		}
		if h.roots, err = x509.SystemCertPool(); err != nil {
			h.roots = x509.NewCertPool()
		}
		if !h.roots.AppendCertsFromPEM(pem) {
			return held{}, contract.Errorf("effects/runtime-missing", ":%s: %s holds no certificate", t.Tool.ID, t.CAFile)
		}
	}
	p := confine.Policy{Network: confine.Ports, Limits: confine.ResourceLimits{OpenFiles: 64, FileSize: 1}}
	for _, port := range t.Scope.Ports.V {
		p.ConnectPorts = append(p.ConnectPorts, uint16(port))
	}
	p.ConnectPorts = append(p.ConnectPorts, 53) // for DNS answers that do not fit a datagram
	if err := t.confine(p); err != nil {
		return held{}, err
	}
	return h, nil
}

// confine confines this process to the call.
func (t *Task) confine(p confine.Policy) *contract.Error {
	p.Level, p.BestEffort = confine.Strict, !t.Strict
	if err := confine.Apply(p); err != nil {
		return Unheld(t.Tool, err)
	}
	return nil
}

// Unheld is the error of a call that the kernel cannot confine to its scope.
func Unheld(t contract.Tool, err error) *contract.Error {
	e := contract.Errorf("effects/not-enforceable", ":%s: nothing holds the call to its scope: %s", t.ID, err)
	var fault *confine.Error
	if errors.As(err, &fault) {
		e = e.WithDetail("layer", edn.Text(string(fault.Layer)))
	}
	return e
}
