package task

import (
	"context"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/plugins/db/internal/lite"
	"github.com/fermenthq/ferment/plugins/db/internal/post"
	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// database is the transaction of a call.
type database interface {
	Run(ctx context.Context, s effects.Statement, into *result.Rows) *result.Fault
	Commit(ctx context.Context, s result.Stored) *result.Fault
	Close()
}

var (
	_ database = (*lite.DB)(nil)
	_ database = (*post.DB)(nil)
)

// memory is the maximum memory of a worker, in bytes.
const memory = 512 << 20

// confined holds the transaction of a confined process.
type confined struct {
	task   *Task
	db     database
	stored *result.Stored // of an earlier call with the key
	ctx    context.Context
	cancel context.CancelFunc
}

// Hold opens the database of the rules, begins the transaction, and confines this process to the
// open database: afterwards it can access no other file, address or program. The time limit of the
// call begins here. The caller must close the result.
func Hold(rules edn.Value) (worker.Held, error) {
	t, connection, timeout, err := taskFrom(rules)
	if err != nil {
		return nil, err
	}
	c := &confined{task: t}
	c.ctx, c.cancel = context.WithTimeout(context.Background(), time.Duration(timeout)*time.Millisecond)
	var fault *result.Fault
	c.db, c.stored, fault = t.open(c.ctx, connection, time.Duration(timeout)*time.Millisecond)
	if fault != nil {
		c.cancel()
		return nil, fault.Error(t.Tool, t.work.Connection)
	}
	p := confine.Policy{Limits: confine.ResourceLimits{OpenFiles: 64, Memory: memory}}
	if failed := worker.Confine(t.Tool, p, t.Strict); failed != nil {
		c.Close()
		return nil, failed
	}
	return c, nil
}

func (t *Task) open(ctx context.Context, c Connection, wait time.Duration) (database, *result.Stored, *result.Fault) {
	write := t.Tool.Effect == "db/write"
	switch c.Driver {
	case SQLite:
		db, stored, fault := lite.Open(lite.Settings{
			Path: c.Path, Write: write, DDL: t.Scope.DDL.V, Key: t.Key, Now: time.Now(), Wait: wait,
		})
		return db, stored, fault
	case Postgres:
		db, stored, fault := post.Open(ctx, post.Settings{
			DSN: c.DSN, Write: write, DDL: t.Scope.DDL.V, Key: t.Key, Strict: t.Strict,
			MaxBytes: t.Scope.MaxBytes.Or(effects.DefaultDBBytes),
		})
		return db, stored, fault
	}
	return nil, nil, result.Faultf(result.Missing, "unknown driver %q, expected sqlite or postgres", c.Driver)
}

// Close ends the transaction.
func (c *confined) Close() {
	c.db.Close()
	c.cancel()
}

// Do executes the statements of the call, and commits if it writes. It ends at the time limit of
// the rules, whatever the given context is.
func (c *confined) Do(_ context.Context, call edn.Value) (edn.Value, *contract.Error) {
	t := c.task
	if err := t.learn(call); err != nil {
		return edn.Nil(), err
	}
	types, err := typesOf(t.Tool, t.Input)
	if err != nil {
		return edn.Nil(), err
	}
	var out edn.Value
	var fault *result.Fault
	if t.Tool.Effect == "db/write" {
		out, fault = c.exec(types)
	} else {
		out, fault = c.query(types)
	}
	if fault != nil {
		return edn.Nil(), fault.Error(t.Tool, t.work.Connection)
	}
	return out.Merge(edn.MustMap(edn.K("tool/id"), edn.K(t.Tool.ID), edn.K("effect"), edn.K(t.Tool.Effect),
		edn.K("connection"), edn.Text(t.work.Connection))), nil
}

func (c *confined) bounds() *result.Bounds {
	s := &c.task.Scope
	return &result.Bounds{Rows: s.MaxRows.Or(effects.DefaultDBRows), Bytes: s.MaxBytes.Or(effects.DefaultDBBytes)}
}

func (c *confined) query(types map[string]string) (edn.Value, *result.Fault) {
	rows := result.NewRows(c.bounds(), types)
	if fault := c.db.Run(c.ctx, c.task.work.Statements[0], rows); fault != nil {
		return edn.Nil(), fault
	}
	return rows.Value(), nil
}

// exec executes the statements, or returns the answer of the call that has
// executed them.
func (c *confined) exec(types map[string]string) (edn.Value, *result.Fault) {
	statements := statementsHash(c.task.work.Statements)
	if c.stored != nil {
		return repeated(*c.stored, statements)
	}
	bounds := c.bounds()
	bounds.Whole = true
	results := make([]edn.Value, len(c.task.work.Statements))
	affected := int64(0)
	for i, s := range c.task.work.Statements {
		rows := result.NewRows(bounds, types)
		if fault := c.db.Run(c.ctx, s, rows); fault != nil {
			if len(results) > 1 {
				fault.Message = fmt.Sprintf("statement %d: %s", i+1, fault.Message)
			}
			return edn.Nil(), fault
		}
		affected += rows.Affected
		results[i] = edn.MustMap(edn.K("affected"), edn.Int(rows.Affected))
		if rows.Columned() {
			results[i] = rows.Value().Dissoc(edn.K("truncated?")).Merge(results[i])
		}
	}
	out := edn.MustMap(edn.K("affected"), edn.Int(affected), edn.K("results"), edn.Vector(results...))
	if fault := c.db.Commit(c.ctx, result.Stored{Statements: statements, Answer: out.String()}); fault != nil {
		return edn.Nil(), fault
	}
	return out.AssocKey("repeated?", edn.Bool(false)), nil
}

// repeated returns the answer of an earlier call with the same key.
func repeated(stored result.Stored, statements string) (edn.Value, *result.Fault) {
	if stored.Statements != statements {
		return edn.Nil(), result.Faultf(result.Invalid, "the effect key belongs to other statements, which were executed")
	}
	out, err := edn.ReadString(stored.Answer, edn.WithLimits(edn.Stored))
	if err != nil {
		return edn.Nil(), result.Faultf(result.Lost, "read the stored answer of the call: %s", err)
	}
	return out.AssocKey("repeated?", edn.Bool(true)), nil
}

func statementsHash(list []effects.Statement) string {
	vs := make([]edn.Value, len(list))
	for i, s := range list {
		vs[i] = edn.Vector(edn.Text(s.SQL), edn.Vector(s.Parameters...))
	}
	return edn.Hash(edn.Vector(vs...))
}
