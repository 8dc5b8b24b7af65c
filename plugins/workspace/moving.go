package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Bounds of the parts of an export.
const (
	chunkBytes = 512 << 10 // size of one delta
	maxInline  = 4 << 20   // size of an export in one answer; base64 makes it a third larger
)

// movingIntents move frames between stores.
func movingIntents() []intent {
	return []intent{
		{
			name: "workspace/export", says: "Writes nodes, frames and heads as bytes that verify themselves.",
			needs: agent.ReadWorkspace, effects: read, streams: true, run: export,
		},
		{
			name: "workspace/import", says: "Verifies an export and adds its frames and heads.",
			admin: true, effects: write, writes: true, streams: true, run: importFrames,
		},
	}
}

// export writes the state to the answer, or with :chunks? to deltas before it
// (WS-174).
func export(ctx context.Context, r *request) (edn.Value, error) {
	path, err := store.CheckPath(r.text("path"))
	if err != nil {
		return edn.Nil(), err
	}
	selection := store.ExportRange{Path: path, Types: r.texts("frame/types"), Agents: r.texts("agents"), History: r.flag("history?")}
	w := &exportWriter{hash: blake3.New(32, nil), show: r.progress("export", "bytes")}
	if r.flag("chunks?") {
		w.out = r.out
	}
	return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
		if err := exportable(ctx, v, path); err != nil {
			return err
		}
		done, err := v.Export(ctx, w, selection)
		if err == nil {
			err = w.flush()
		}
		if err != nil {
			return err
		}
		out.Key("blob", edn.Text("b3:"+hex.EncodeToString(w.hash.Sum(nil))))
		out.Key("frames", number(done.Frames))
		out.Key("bytes", number(done.Bytes))
		out.Opt("state-root", idValue(done.StateRoot))
		if w.out == nil {
			out.Key("content/b64", edn.Text(base64.StdEncoding.EncodeToString(w.rest.Bytes())))
		} else {
			out.Key("chunks", number(w.chunks))
		}
		return nil
	})
}

// exportable refuses a path that never was in the tree. Without a tree, frames that
// were imported can be exported.
func exportable(ctx context.Context, v *store.Snapshot, path string) error {
	t, err := v.Tree(ctx)
	if err != nil || t == nil || path == "" {
		return err
	}
	states, err := v.Lineage(ctx, path)
	if err == nil && len(states) == 0 {
		err = contract.Errorf("path/not-in-tree", "the path was not scanned or is ignored").WithOp("export", store.Shown(path))
	}
	return err
}

// exportWriter hashes what is written, and sends it in chunks or keeps it.
type exportWriter struct {
	hash   *blake3.Hasher
	rest   bytes.Buffer
	out    deltas // nil: everything is kept
	show   func(done, total int)
	total  int
	chunks int
}

// deltas is the part of a stream that an export needs.
type deltas interface{ Delta(edn.Value) error }

// Write implements io.Writer.
func (w *exportWriter) Write(p []byte) (int, error) {
	_, _ = w.hash.Write(p)
	w.rest.Write(p)
	w.total += len(p)
	w.show(w.total, 0)
	if w.out == nil && w.rest.Len() > maxInline {
		return 0, contract.Errorf("limit/exceeded", "the export has more than %d bytes, which is too much for one answer", maxInline).
			WithDetail("limit", edn.K("export")).WithDetail("max", edn.Int(maxInline)).
			WithHint("set :chunks? true to receive it in parts, as `ferment workspace export` does")
	}
	for w.out != nil && w.rest.Len() >= chunkBytes {
		if err := w.send(w.rest.Next(chunkBytes)); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (w *exportWriter) flush() error {
	if w.out == nil || w.rest.Len() == 0 {
		return nil
	}
	return w.send(w.rest.Next(w.rest.Len()))
}

func (w *exportWriter) send(chunk []byte) error {
	w.chunks++
	var b edn.MapBuilder
	b.Key("kind", edn.K("chunk"))
	b.Key("content/b64", edn.Text(base64.StdEncoding.EncodeToString(chunk)))
	return w.out.Delta(b.Map())
}

// importFrames adds the frames of an export, all or none (WS-174), or takes a part of
// one that is larger than a request.
func importFrames(ctx context.Context, r *request) (edn.Value, error) {
	if r.in.HasKey("offset") {
		return r.upload()
	}
	bundle, err := r.bundle(r.in)
	if err != nil {
		return edn.Nil(), err
	}
	on, err := oneOf(r, "on-conflict", store.ConflictFail, store.KeepLocal, store.Resample)
	if err != nil {
		return edn.Nil(), err
	}
	if on == "" {
		on = store.ConflictFail
	}
	var done *store.Imported
	run := func(tx *store.Tx) (err error) {
		done, err = tx.Import(bundle, on)
		return err
	}
	if !r.flag("dry-run?") {
		defer r.uploads.drop(r.text("blob"))
	}
	answer := func(out *edn.MapBuilder) {
		out.Key("imported", number(done.Imported))
		out.Key("existing", number(done.Existing))
		out.OptInt("restored", int64(done.Restored))
		out.Key("heads", number(done.Heads))
		out.OptInt("deleted", int64(done.Deleted))
		out.Key("conflicts", conflicts(done.Conflicts))
		out.OptTrue("dry-run?", r.flag("dry-run?"))
	}
	return r.updateOrPreview(ctx, run, answer)
}

// upload takes a part of an export and answers how much of it is there.
func (r *request) upload() (edn.Value, error) {
	if r.text("blob") == "" || r.text("file") != "" || r.flag("dry-run?") || r.in.HasKey("on-conflict") {
		return edn.Nil(), invalid(edn.Vector(edn.K("offset")), "a part is sent with :blob, :offset and :content/b64 alone")
	}
	part, err := decodeExport(r.text("content/b64"))
	if err != nil {
		return edn.Nil(), err
	}
	offset, _ := r.in.Key("offset").AsInt()
	if offset == 0 {
		if err := store.CheckExportHead(part); err != nil {
			return edn.Nil(), err
		}
	}
	received, err := r.uploads.add(r.text("blob"), offset, part)
	return edn.MustMap(edn.K("received"), edn.Int(received)), err
}

func decodeExport(encoded string) ([]byte, error) {
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, contract.Errorf("import/invalid", ":content/b64 is not valid base64: %w", err)
	}
	return content, nil
}

// bundle reads and verifies an export in the input: its bytes, a file below the
// allowed roots, or an upload. at is where the input has it.
func (r *request) bundle(in edn.Value, at ...edn.Value) (*store.Bundle, error) {
	encoded, sent := in.Key("content/b64").AsString()
	name, _ := in.Key("file").AsString()
	want, _ := in.Key("blob").AsString()
	if sent && name != "" || !sent && name == "" && want == "" {
		return nil, invalid(edn.Vector(append(at, edn.K("content/b64"))...),
			"expected one of :content/b64, :file and :blob")
	}
	var bundle *store.Bundle
	read := func(content io.Reader) (err error) {
		bundle, err = readBundle(content, cmp.Or(name, want), want)
		return err
	}
	switch {
	case name != "":
		return bundle, r.readExport(name, read)
	case sent:
		content, err := decodeExport(encoded)
		if err == nil {
			err = read(bytes.NewReader(content))
		}
		return bundle, err
	}
	err := r.uploads.read(want, read)
	if err != nil {
		r.uploads.drop(want)
	}
	return bundle, err
}

// readBundle reads and verifies an export, of which a hash may be expected.
func readBundle(content io.Reader, name, want string) (*store.Bundle, error) {
	hash := blake3.New(32, nil)
	in := &countingReader{in: io.TeeReader(content, hash)}
	bundle, err := store.ReadExport(in)
	if want != "" { // an export that does not verify was not read to its end
		if _, err := io.Copy(io.Discard, in); err != nil {
			return nil, contract.Errorf("import/invalid", "%w", err).WithOp("import", name)
		}
	}
	sum := hash.Sum(nil)
	switch {
	case want != "" && want != "b3:"+hex.EncodeToString(sum):
		return nil, contract.Errorf("import/invalid", "the bytes have the hash b3:%x, expected %s", sum, want).
			WithOp("import", name)
	case in.read == 0:
		return nil, contract.Errorf("import/invalid", "the file is empty, expected an export of a workspace").
			WithOp("import", name)
	}
	return bundle, err
}

// countingReader counts the bytes that were read.
type countingReader struct {
	in   io.Reader
	read int64
}

// Read implements io.Reader.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.read += int64(n)
	return n, err
}

// readExport passes a file to a function. The file must lie below the allowed roots
// after links are resolved.
func (r *request) readExport(name string, use func(io.Reader) error) error {
	if _, err := scan.Resolve(filepath.Dir(name), r.cfg.AllowedRoots); err != nil {
		if errors.Is(err, contract.OfType("workspace/root-denied")) {
			err = contract.AsError(err).WithOp("import", name).
				WithHint("send the file in parts to :workspace/import, as `ferment workspace import` does, or copy it below one of these roots")
		}
		return err
	}
	info, err := os.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return contract.Errorf("import/invalid", "it is not a regular file").WithOp("import", name)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(name)
	}
	if err != nil {
		return contract.Errorf("import/invalid", "%w", scan.WithoutPath(err)).WithOp("import", name).
			WithHint("name an export file that the plugin may read")
	}
	defer func() { _ = f.Close() }()
	return use(f)
}

func conflicts(list []store.Conflict) edn.Value {
	all := make([]edn.Value, len(list))
	for i, c := range list {
		var b edn.MapBuilder
		b.Key("frame/id", idValue(c.Frame))
		putPath(&b, c.Path)
		b.Key("frame/type", edn.Text(c.Type))
		b.Opt("sample/id", idValue(c.Sample))
		all[i] = b.Map()
	}
	return edn.Vector(all...)
}
