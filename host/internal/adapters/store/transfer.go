package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// An exported run is a text file with one EDN map per line: the header, the records in order, and
// the values that they refer to, with parts before the values that contain them. A part is written
// as #store/part "b3:..".
//
//	{:ferment/export 1 :run "run_.." :records 12 :chain "b3:.."}
//	{:chain "b3:.." :record {..}}
//	{:hash "b3:.." :value ..}       a whole value
//	{:hash "b3:.." :parts ..}       a value with parts
//	{:hash "b3:.." :concat ["b3:.."]} a vector made of vectors
//	{:plugin ".." :description {..} :hash "b3:.."}
//
// The last form describes a plugin of the host, for a replay where it is not installed; the hash
// covers the other keys of the line. These lines are optional.
const exportVersion = 1

// Export writes a finished run with its values as lines of EDN and verifies them. The error is
// run/not-found for an unknown run or one whose records were removed, queue/invalid-transition for
// a run that is not finished, and a *Damage if a record or a value does not verify. After an error,
// to may hold a part of the run.
func (s *Store) Export(ctx context.Context, run string, to io.Writer) error {
	row, err := s.finished(ctx, run, "export")
	if err != nil {
		return err
	}
	if !row.Removed.IsZero() {
		return contract.Errorf("run/not-found", "journal: export run %s: its records were removed", run)
	}
	out := bufio.NewWriter(to)
	e := exporter{s: s, ctx: ctx, out: out, written: map[int64]sum{}}
	var head edn.MapBuilder
	head.Key("ferment/export", edn.Int(exportVersion))
	head.Key("run", edn.Text(run))
	head.Key("records", edn.Int(int64(row.Records)))
	head.Key("chain", edn.Text(row.chain.hash()))
	if !row.Purged.IsZero() {
		head.Key("purged", edn.Inst(row.Purged))
	}
	e.line(head.Map())
	var names []string
	decode := s.decoder()
	err = s.verifyChain(ctx, row, func(seq int, chain sum, body []byte) error {
		rec, err := decodeAs(decode, run, seq, body)
		if err != nil {
			return err
		}
		rec.Refs(func(ref journal.Ref) { names = append(names, ref.Hash()) })
		v, err := edn.Read(body, storedLimits)
		e.line(edn.MustMap(edn.K("chain"), edn.Text(chain.hash()), edn.K("record"), v))
		return err
	})
	if err != nil {
		return err
	}
	for _, hash := range names {
		if err := e.named(hash); err != nil && !(errors.Is(err, contract.OfType("replay/values-purged")) && !row.Purged.IsZero()) {
			return err
		}
	}
	return out.Flush()
}

// ExportedPlugins returns the lines of an export file that describe plugins, sorted by name. The
// keys of descriptions are the names of the plugins.
func ExportedPlugins(descriptions map[string]edn.Value) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(descriptions)) {
		v := edn.MustMap(edn.K("plugin"), edn.Text(name), edn.K("description"), descriptions[name])
		b.Write(v.AssocKey("hash", edn.Text(edn.Hash(v))).Canonical())
		b.WriteByte('\n')
	}
	return b.String()
}

// Exported returns the descriptions of plugins in an export file, by plugin name. The error for a
// file that Export did not write is import/invalid.
func Exported(from io.Reader) (map[string]edn.Value, error) {
	lines, err := readLines(from)
	if err != nil {
		return nil, err
	}
	plugins := map[string]edn.Value{}
	for _, v := range lines {
		if v.HasKey("description") {
			if err := described(v); err != nil {
				return nil, err
			}
			name, _ := v.Key("plugin").AsString()
			plugins[name] = v.Key("description")
		}
	}
	return plugins, nil
}

// described verifies the hash of a line that describes a plugin.
func described(v edn.Value) error {
	if text, _ := v.Key("hash").AsString(); text != edn.Hash(v.Dissoc(edn.K("hash"))) {
		return badFile("the description of plugin %s was changed", v.Key("plugin"))
	}
	return nil
}

type exporter struct {
	s       *Store
	ctx     context.Context
	out     *bufio.Writer // its first error is returned by Flush
	written map[int64]sum
}

func (e *exporter) line(v edn.Value) {
	_, _ = e.out.Write(v.Canonical())
	_ = e.out.WriteByte('\n')
}

// named verifies the value that a record refers to and writes it with its parts.
func (e *exporter) named(hash string) error {
	if _, err := e.s.Value(e.ctx, hash); err != nil {
		return err
	}
	key, err := parseSum(hash)
	if err != nil {
		return err
	}
	c, err := e.s.content(e.ctx, "content_by_hash", key)
	if err != nil {
		return err
	}
	_, err = e.value(c.n)
	return err
}

func (e *exporter) value(n int64) (sum, error) {
	if h, ok := e.written[n]; ok {
		return h, nil
	}
	c, err := e.s.content(e.ctx, "content", n)
	if err != nil {
		return c.hash, err
	}
	parts, err := c.parts()
	if err != nil {
		return c.hash, err
	}
	names := make([]edn.Value, len(parts))
	for i, part := range parts {
		h, err := e.value(part)
		if err != nil {
			return c.hash, err
		}
		names[i] = edn.Text(h.hash())
	}
	key, body := "concat", edn.Vector(names...)
	if c.form != formTree {
		if body, err = edn.Read(c.body, storedLimits); err != nil {
			return c.hash, err
		}
		key = "value"
	}
	if c.form == formParts {
		key = "parts"
		body = body.MapValues(func(elem edn.Value) edn.Value {
			if _, ok := partNumber(elem); ok {
				elem, names = partOf(names[0]), names[1:]
			}
			return elem
		})
	}
	e.line(edn.MustMap(edn.K("hash"), edn.Text(c.hash.hash()), edn.K(key), body))
	e.written[n] = c.hash
	return c.hash, nil
}

// Import reads an export file, verifies the chain and the values of its run, and stores it as a
// finished run. It returns the id of the run. The error is import/invalid for a file that Export
// did not write; for a run that is already stored it wraps ErrRecorded.
func (s *Store) Import(ctx context.Context, from io.Reader) (run string, err error) {
	lines, err := readLines(from) // read before the writer is occupied
	if err != nil {
		return "", err
	}
	err = s.change(ctx, func(ctx context.Context) error {
		i := importer{s: s, ctx: ctx, w: s.writer, names: map[sum]bool{}}
		err := i.read(lines)
		run = i.row.ID
		return err
	})
	return run, err
}

type importer struct {
	s     *Store
	ctx   context.Context
	w     *writer
	row   runRow
	want  edn.Value // the header
	names map[sum]bool
	code  journal.Decoder
}

// badFile returns an import/invalid error for a file that Export did not write or that was changed.
// The cause is only in the text, because its type would be about the journal and not the file.
func badFile(format string, args ...any) error {
	return contract.Errorf("import/invalid", "import: %s: expected a file that `ferment runs export` wrote",
		fmt.Sprintf(format, args...)).
		WithHint("export the run again with `ferment runs export RUN FILE`, and copy the file unchanged")
}

func (i *importer) read(lines []edn.Value) (err error) {
	for n, v := range lines {
		switch {
		case n == 0:
			err = i.header(v)
		case v.HasKey("record"):
			err = i.record(v)
		case v.HasKey("description"): // this host has its own plugins
			err = described(v)
		default:
			err = i.value(v)
		}
		if err != nil {
			return err
		}
	}
	return i.end()
}

// readLines reads a file of one form per line.
func readLines(from io.Reader) (out []edn.Value, err error) {
	in := bufio.NewScanner(from)
	in.Buffer(nil, maxValue+maxRecord)
	for in.Scan() {
		v, err := edn.Read(in.Bytes(), storedLimits)
		var syntax *edn.SyntaxError
		if errors.As(err, &syntax) { // the line is always 1, so it is not shown
			return nil, badFile("line %d, column %d: %s", len(out)+1, syntax.Pos.Column, syntax.Message)
		}
		if err != nil {
			return nil, badFile("line %d: %v", len(out)+1, err)
		}
		out = append(out, v)
	}
	if err := in.Err(); err != nil {
		return nil, badFile("line %d: %v", len(out)+1, err)
	}
	return out, nil
}

func (i *importer) header(v edn.Value) error {
	version, _ := v.Key("ferment/export").AsInt()
	id, ok := v.Key("run").AsString()
	if version != exportVersion || !ok || id == "" || id == journal.HostRun {
		return badFile("the first line is not the header of a run in version %d", exportVersion)
	}
	i.want = v
	run := liveRun{id: id}
	if err := i.w.newRun(i.ctx, &run, journal.Record{}); err != nil {
		return err
	}
	i.row = run.row
	i.row.Imported = true
	return nil
}

func (i *importer) record(v edn.Value) error {
	rec, err := i.code.Decode(v.Key("record"))
	if err != nil {
		return badFile("record %d: %v", i.row.Records+1, err)
	}
	body := v.Key("record").Canonical()
	chain := chained(i.row.chain, body)
	if text, _ := v.Key("chain").AsString(); text != chain.hash() || rec.Seq != i.row.Records+1 || rec.Run != i.row.ID {
		return badFile("record %d of run %s does not continue the run", rec.Seq, rec.Run)
	}
	rec.Refs(func(ref journal.Ref) {
		if h, err := parseSum(ref.Hash()); err == nil {
			i.names[h] = true
		}
	})
	i.row.apply(rec, chain)
	i.row.bytes += int64(len(body))
	return i.w.addRecord(i.ctx, &i.row, body)
}

// value stores the value of a line and verifies its hash.
func (i *importer) value(v edn.Value) error {
	text, _ := v.Key("hash").AsString()
	hash, err := parseSum(text)
	if err != nil {
		return badFile("%v", err)
	}
	at, err := i.w.find(i.ctx, hash, true)
	if err != nil || at.n > 0 {
		return errors.Join(err, i.w.share(i.ctx, at, i.row.n))
	}
	c := content{hash: hash, owner: i.row.n}
	switch {
	case v.HasKey("value"):
		c.body = v.Key("value").Canonical()
	case v.HasKey("concat"):
		c.form = formTree
		for e := range v.Key("concat").Elems() {
			c.body = binary.AppendUvarint(c.body, uint64(i.part(e, &err)))
		}
	default:
		c.form = formParts
		c.body = v.Key("parts").MapValues(func(e edn.Value) edn.Value {
			if tag, ref, ok := e.AsTagged(); ok && tag == partTag {
				return partOf(edn.Int(i.part(ref, &err)))
			}
			return e
		}).Canonical()
	}
	if err != nil {
		return err
	}
	c.size, c.n = len(c.body), i.w.lastN+1
	var unread error // of a part that is stored already
	if _, err := assemble(c, func(n int64) (part content, err error) {
		part, err = readContent(i.ctx, i.w.sql, i.s.blobs, "content", n)
		unread = errors.Join(unread, err)
		return part, err
	}); unread != nil {
		return unread
	} else if err != nil {
		return badFile("value %s: %v", text, err)
	}
	i.row.bytes += int64(c.size)
	_, err = i.w.add(i.ctx, c)
	return err
}

// part returns the number of a value that an earlier line stored. It sets *err if there is none.
func (i *importer) part(ref edn.Value, err *error) int64 {
	text, _ := ref.AsString()
	hash, bad := parseSum(text)
	at, failed := i.w.find(i.ctx, hash, true)
	switch {
	case *err != nil:
	case bad != nil, failed == nil && at.n == 0:
		*err = badFile("part %s is not before the value that needs it", ref)
	case failed != nil:
		*err = failed
	default:
		*err = i.w.share(i.ctx, at, i.row.n)
	}
	return at.n
}

func (i *importer) end() error {
	if i.want.IsNil() {
		return badFile("the file is empty")
	}
	records, _ := i.want.Key("records").AsInt()
	chain, _ := i.want.Key("chain").AsString()
	switch {
	case int(records) != i.row.Records || chain != i.row.chain.hash():
		return badFile("run %s has %d records of %d", i.row.ID, i.row.Records, records)
	case !i.row.Ended():
		return badFile("run %s is not finished", i.row.ID)
	}
	i.row.Purged, _ = i.want.Key("purged").AsInst()
	for hash := range i.names {
		at, err := i.w.find(i.ctx, hash, true)
		switch {
		case err != nil:
		case at.n > 0:
			err = i.w.share(i.ctx, at, i.row.n)
		case i.row.Purged.IsZero():
			err = badFile("value %s is missing", hash.hash())
		}
		if err != nil {
			return err
		}
	}
	return i.w.saveRun(i.ctx, &i.row, "")
}
