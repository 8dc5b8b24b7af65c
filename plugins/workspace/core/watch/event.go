package watch

import (
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Ready       Kind = "ready"       // the tree is scanned and watched; the first event of a subscription
	Change      Kind = "change"      // a transaction, or a summary of several, changed the tree
	Regenerated Kind = "regenerated" // SubscribeOptions.Regenerate ran
	OnChange    Kind = "on-change"   // SubscribeOptions.OnChange failed
	Overflow    Kind = "overflow"    // events were lost: everything is scanned
	Rescan      Kind = "rescan"      // the changes that the scan after an overflow found, possibly none
	Degraded    Kind = "degraded"    // the number of directories that are polled became, or ceased to be, zero
	Error       Kind = "error"       // a scan failed; it is tried again
	Heartbeat   Kind = "heartbeat"   // nothing happened
	RootLost    Kind = "root-lost"   // the directory is gone; the last event
)

// maxListed is the number of paths in one list of an event.
const maxListed = 1000

// Event is an event of a subscription. Fields that its kind does not use are
// empty.
type Event struct {
	Kind Kind
	Seq  uint64 // of the subscription, from 0 on without gaps
	Time time.Time
	// Commit is the transaction whose tree the consumer has seen after the
	// event. A later subscription with it as After continues there.
	Commit uint64
	Root   id.ID // node id of the root at Commit
	// Changes are those since the event before, for Change and Rescan.
	*Changes
	// Polled is the number of directories that the system cannot watch, for
	// Degraded.
	Polled int
	Err    error // for Error, OnChange, RootLost, and a failed Regenerated
	// Report is the result of SubscribeOptions.Regenerate.
	Report any
}

// Changes are paths that changed. Each list is sorted and has at most 1,000 of
// them; Counts has the full numbers.
type Changes struct {
	Added, Modified, Removed []string
	// Ancestors are directories that changed because something below them did.
	Ancestors []string
	Renamed   []tree.Rename
	Counts    Counts
	// Summary means that the event summarizes several transactions, because the
	// consumer was too far behind. Paths that are equal before and after are
	// not included.
	Summary bool
}

// Complete reports whether the lists have all changes.
func (c *Changes) Complete() bool {
	return c.Counts.Added == len(c.Added) && c.Counts.Modified == len(c.Modified) && c.Counts.Removed == len(c.Removed)
}

// Counts are the full lengths of the lists of Changes.
type Counts struct {
	Added, Modified, Removed, Ancestors, Renamed int
}

func newChanges(c *tree.Changes) *Changes {
	out := &Changes{}
	list := func(count *int, paths *[]string, path string) {
		if *count++; *count <= maxListed {
			*paths = append(*paths, path)
		}
	}
	for _, x := range c.Added {
		list(&out.Counts.Added, &out.Added, x.Path)
	}
	for _, x := range c.Removed {
		list(&out.Counts.Removed, &out.Removed, x.Path)
	}
	for _, x := range c.Modified {
		if x.Old.Mode == id.Dir && x.New.Mode == id.Dir {
			list(&out.Counts.Ancestors, &out.Ancestors, x.Path)
		} else {
			list(&out.Counts.Modified, &out.Modified, x.Path)
		}
	}
	out.Counts.Renamed = len(c.Renamed)
	out.Renamed = c.Renamed[:min(len(c.Renamed), maxListed)]
	return out
}
