package store

import (
	"context"
	"database/sql"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// FrameInfo is the index entry of a frame.
type FrameInfo struct {
	Frame  id.ID
	Seq    uint64
	Path   string
	Type   string
	Agent  string
	Origin Origin
	// LeftOut means that no export of this state includes the frame: its text was dropped.
	LeftOut bool
}

// AllFrameInfo lists all frames of a path and what is below it, in the order of
// their transactions.
func (v *Snapshot) AllFrameInfo(ctx context.Context, under string) (list []FrameInfo, err error) {
	cond, args := within("path", under)
	args = append([]any{int64(v.seq)}, args...)
	err = v.frames().each(ctx, func(rows *sql.Rows) (err error) {
		var f FrameInfo
		var sum, path []byte
		if err := rows.Scan(&sum, &f.Seq, &path, &f.Type, &f.Agent, &f.Origin, &f.LeftOut); err != nil {
			return err
		}
		f.Path = string(path)
		f.Frame, err = id.Of(id.Frame, v.store.Scheme.Alg(), sum)
		list = append(list, f)
		return err
	}, `SELECT id, seq, path, type, agent, origin, content IN (SELECT content FROM gone)
		FROM frames WHERE seq <= ? AND `+cond+" ORDER BY seq, id", args...)
	return list, readError(err)
}
