package store

import (
	"context"
	"database/sql"
	"errors"
)

// owner implements sharing.
func (db *postgresDB) owner(ctx context.Context, from *statements, run int64) (id string, mine bool, err error) {
	var host int64
	err = from.one(ctx, "host_of", []any{run}, []any{&host, &id})
	return id, host == db.n, err
}

// takeLapsed implements sharing.
func (db *postgresDB) takeLapsed(ctx context.Context, st *statements) (out []takenRun, err error) {
	var run takenRun
	err = st.all(ctx, "take_lapsed", nil, []any{&run.n, &run.left}, func() error { out = append(out, run); return nil })
	if err == nil {
		_, err = st.exec(ctx, "drop_reserved")
	}
	return out, err
}

// anyLapsed implements sharing.
func (db *postgresDB) anyLapsed(ctx context.Context, from *statements) (found bool, err error) {
	err = from.one(ctx, "any_lapsed", []any{db.n}, []any{&found})
	return found, err
}

// give implements sharing. It also raises the takeover counter of this host, so that its next
// transaction checks which runs it has lost.
func (db *postgresDB) give(ctx context.Context, st *statements, rows []runRow) (to int64, err error) {
	if err = st.one(ctx, "no_host", nil, []any{&to}); err != nil {
		return 0, err
	}
	for _, row := range rows {
		if _, err := st.exec(ctx, "give_run", row.n, to); err != nil {
			return 0, err
		}
	}
	_, err = st.exec(ctx, "told_of_taken", db.n)
	return to, err
}

// take implements sharing.
func (db *postgresDB) take(ctx context.Context, st *statements, run int64) (from int64, err error) {
	err = st.one(ctx, "take_run", []any{run}, []any{&from})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return from, err
}
