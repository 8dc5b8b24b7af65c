package derive

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Rerun returns the content id that the recipe of a frame gives at present, for a
// validation that compares recipes with stored frames. It returns the absent id
// if a comparison would prove nothing: the frame is authored or generated, its
// basis has changed, or its policy can give different texts for equal inputs. The error
// is store.ErrDrift if the file is not the one of the tree; any other error states why the
// recipe cannot be run now.
func (e *Engine) Rerun(ctx context.Context, v *store.Snapshot, f *store.Frame) (id.ID, error) {
	if f.Origin != store.Extracted && f.Origin != store.Synthesized || f.Sampled {
		return id.ID{}, nil
	}
	j := &job{agent: f.Agent, producer: f.Producer(), force: true}
	j.item = Item{Path: f.Path, Type: f.Type}
	if f.Origin == store.Synthesized {
		var err error
		if j.policy, j.sel, err = e.policyOf(f); err != nil {
			return id.ID{}, contract.AsError(err)
		}
	}
	if err := e.look(ctx, v, j); err != nil || e.basisOf(j) != f.Basis {
		return id.ID{}, nil // it could not be made now, or from other inputs
	}
	if err := e.run(ctx, v, []*job{j}); err != nil {
		return id.ID{}, contract.AsError(err)
	}
	switch e := j.item.Err; {
	case e == nil:
	case e.Type == "synthesis/child-not-ready":
		return id.ID{}, nil // the text of an input is not kept any more
	case e.Type == "frame/basis-mismatch":
		return id.ID{}, store.ErrDrift
	default:
		return id.ID{}, e
	}
	return e.o.Store.Scheme.Bytes(j.text), nil
}
