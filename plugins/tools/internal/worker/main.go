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

// Main is the worker. It returns the exit status.
func Main(in io.Reader, out io.Writer) int {
	closeInherited()
	v, err := receive(in)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "no task:", err)
		return 2
	}
	t, err := taskFrom(v)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bad task:", err)
		return 2
	}
	go func() { // nothing more is sent: the end says that nobody waits
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	answer, failed := t.do(context.Background())
	reply := edn.MustMap(edn.K("out"), answer)
	if failed != nil {
		reply = edn.MustMap(edn.K("error"), failed.Value())
	}
	if err := send(out, reply); err != nil {
		return 2
	}
	return 0
}

// do carries out the task.
func (t *Task) do(ctx context.Context) (edn.Value, *contract.Error) {
	if err := t.Tool.Permit(t.Input, &t.Scope); err != nil {
		return edn.Nil(), err
	}
	switch t.Tool.ID {
	case "fs/read-file", "fs/list", "fs/write-file":
		return t.file()
	case "net/http-request":
		return t.request(ctx)
	}
	return edn.Nil(), contract.Errorf("effects/unsupported-tool", ":%s: no worker does this", t.Tool.ID)
}

func (t *Task) file() (edn.Value, *contract.Error) {
	place, err := t.Tool.Place(t.Input, &t.Scope)
	if err != nil {
		return edn.Nil(), err
	}
	writes := t.Tool.Effect == "fs/write"
	base, err := files.Open(t.Tool, place, writes && t.Input.Key("mkdirs?").Truthy())
	if err != nil {
		return edn.Nil(), err
	}
	defer base.Close()
	p := confine.Policy{ReadPaths: []string{base.Path()}, Limits: confine.ResourceLimits{OpenFiles: 64}}
	if writes {
		p.ReadPaths, p.WritePaths = nil, p.ReadPaths
	}
	if err := t.confine(p); err != nil {
		return edn.Nil(), err
	}
	switch t.Tool.ID {
	case "fs/list":
		return base.List(place)
	case "fs/write-file":
		return base.Write(place, t.Input, &t.Scope, t.Key)
	}
	return base.Read(place, t.Input, &t.Scope)
}

func (t *Task) request(ctx context.Context) (edn.Value, *contract.Error) {
	c := web.Client{Tool: t.Tool, Scope: &t.Scope, Secrets: t.Secrets, Key: t.Key}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return edn.Nil(), contract.Errorf("effects/runtime-missing", ":%s: read the certificates: %w", t.Tool.ID, err)
		}
		if c.Roots, err = x509.SystemCertPool(); err != nil {
			c.Roots = x509.NewCertPool()
		}
		if !c.Roots.AppendCertsFromPEM(pem) {
			return edn.Nil(), contract.Errorf("effects/runtime-missing", ":%s: %s holds no certificate", t.Tool.ID, t.CAFile)
		}
	}
	p := confine.Policy{Network: confine.Ports, Limits: confine.ResourceLimits{OpenFiles: 64, FileSize: 1}}
	for _, port := range t.Scope.Ports.V {
		p.ConnectPorts = append(p.ConnectPorts, uint16(port))
	}
	p.ConnectPorts = append(p.ConnectPorts, 53) // names that do not fit a datagram
	if err := t.confine(p); err != nil {
		return edn.Nil(), err
	}
	return c.Do(ctx, t.Input)
}

// confine has the kernel hold this process to the call.
func (t *Task) confine(p confine.Policy) *contract.Error {
	p.Level, p.BestEffort = confine.Strict, !t.Strict
	if err := confine.Apply(p); err != nil {
		return Unheld(t.Tool, err)
	}
	return nil
}

// Unheld is the error of a call that the kernel cannot hold to its scope.
func Unheld(t contract.Tool, err error) *contract.Error {
	e := contract.Errorf("effects/not-enforceable", ":%s: nothing holds the call to its scope: %s", t.ID, err)
	var fault *confine.Error
	if errors.As(err, &fault) {
		e = e.WithDetail("layer", edn.Text(string(fault.Layer)))
	}
	return e
}
