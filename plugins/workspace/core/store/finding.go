package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// Level is the depth of a validation.
type Level int

// The levels.
const (
	// Full also computes every id and root again, and compares the index with a
	// replay of the log.
	Full Level = iota
	// Quick verifies every file against its hashes, and the tables of the index
	// against each other.
	Quick
)

// Check configures a validation.
type Check struct {
	Level Level
	// Agents reports whether an agent is known. A frame of an unknown agent is
	// a warning. If Agents is nil, all are known.
	Agents func(agent string) bool
	// Disk returns the tree as it is on the disk now. Differences are warnings.
	// If Disk is nil, the tree is not compared.
	Disk func(context.Context) (*tree.Tree, error)
	// Rerun returns the content that the recipe of a frame gives now, absent if
	// the frame cannot be computed again. Its errors prove nothing about the store:
	// they are warnings. It is called for every head of an open store at the level
	// Full. If Rerun is nil, no frame is computed.
	Rerun func(context.Context, *Snapshot, *Frame) (id.ID, error)
	// Progress is called with the number of transactions that were verified and
	// their total. It must be fast.
	Progress func(done, total int)
}

// ErrDrift is the error of a rerun whose file is not the one of the tree.
var ErrDrift = errors.New("the file differs from the tree")

// Code identifies the kind of a finding. It is the name of a keyword.
type Code string

// The codes of errors.
const (
	IdentityDamaged   Code = "identity/damaged"
	IdentityNewer     Code = "store/version" // workspace.edn has a newer format than the log was begun with
	LogDamaged        Code = "log/damaged"
	LogMissing        Code = "log/missing" // transactions that the seal or the index records
	DamageMarked      Code = "log/marked"  // damage that was found before
	RecordMalformed   Code = "record/malformed"
	FrameMismatch     Code = "frame/mismatch"     // ids that do not fit the record
	ContentMissing    Code = "content/missing"    // of a frame
	HeadDangling      Code = "head/dangling"      // a head without its frame
	NodeMismatch      Code = "node/mismatch"      // a directory whose ids do not match its entries
	IndexDamaged      Code = "index/damaged"      // by itself
	IndexDiffers      Code = "index/differs"      // from a replay of the log
	RootDiffers       Code = "state-root/differs" // of index and replay
	SealDamaged       Code = "seal/damaged"
	CacheDamaged      Code = "stat-cache/damaged"
	LockNotEmpty      Code = "lock/not-empty"
	QuarantineAltered      = Code("quarantine/altered")
	Nondeterministic  Code = "synthesis/nondeterministic"
)

// The codes of warnings.
const (
	Unscanned Code = "workspace/unscanned"
	// Rebuilt reports derived files that were replaced since the store was
	// created or repaired.
	Rebuilt       Code = "index/rebuilt"
	SealReplaced  Code = "seal/replaced"
	CacheReplaced Code = "stat-cache/replaced"

	NotSealed    Code = "store/not-sealed"
	LogTorn      Code = "log/torn"     // after the last transaction of a store that was not closed
	IndexBehind  Code = "index/behind" // of such a store: it is from before a compaction
	FileUnknown  Code = "file/unknown"
	DiskDiffers  Code = "disk/differs"
	RerunFailed  Code = "rerun/failed" // a recipe cannot be run now
	AgentUnknown Code = "agent/unknown"
	TextMissing  Code = "text/dropped" // of a frame by a repair, of a head of the tree also by a compaction
)

// Finding is one result of a validation.
type Finding struct {
	Code   Code
	File   string // relative to the data directory; empty if it is not one file
	Offset int64  // of the damage in the file, if it is known
	Seq    uint64 // transaction, or the last one before a damage
	Path   string
	Frame  id.ID
	Reason string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s %s at byte %d, transaction %d, path %q, frame %s: %s", f.Code, f.File, f.Offset, f.Seq, f.Path, f.Frame, f.Reason)
}

// Report is the result of a validation.
type Report struct {
	// Valid means that there are no errors.
	Valid     bool
	Seq       uint64
	Root      id.ID // node id of the root; absent if nothing was scanned
	StateRoot id.ID // absent at the level Quick
	Nodes     int
	Frames    int
	Errors    []Finding
	Warnings  []Finding
}

// maxFindings is the number of findings of one code; further ones are only counted.
const maxFindings = 1000

// findings collects errors and warnings.
type findings struct {
	report Report
	count  map[Code]int
}

func (f *findings) add(list *[]Finding, x Finding) {
	if f.count == nil {
		f.count = map[Code]int{}
	}
	if f.count[x.Code]++; f.count[x.Code] <= maxFindings {
		*list = append(*list, x)
	}
}

func (f *findings) wrong(x Finding) { f.add(&f.report.Errors, x) }

func (f *findings) warn(x Finding) { f.add(&f.report.Warnings, x) }

// done returns the report.
func (f *findings) done() *Report {
	for _, list := range []*[]Finding{&f.report.Errors, &f.report.Warnings} {
		var more []Finding
		for i, x := range *list {
			if n := f.count[x.Code]; n > maxFindings && !slices.ContainsFunc((*list)[:i], func(y Finding) bool { return y.Code == x.Code }) {
				more = append(more, Finding{Code: x.Code, File: x.File, Reason: fmt.Sprintf("%d more of this kind", n-maxFindings)})
			}
		}
		slices.SortFunc(more, func(a, b Finding) int { return cmp.Compare(a.Code, b.Code) })
		*list = append(*list, more...)
	}
	f.report.Valid = len(f.report.Errors) == 0
	return &f.report
}
