package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Word is a choice from a fixed set. As EDN it is a keyword.
type Word string

// MarshalEDN returns the keyword, nil for the empty word.
func (w Word) MarshalEDN() ([]byte, error) {
	if w == "" {
		return []byte("nil"), nil
	}
	return append([]byte{':'}, w...), nil
}

// UnmarshalEDN reads the form that MarshalEDN writes.
func (w *Word) UnmarshalEDN(text []byte) error {
	v, err := edn.Read(text)
	if err != nil {
		return err
	}
	name, _ := v.AsKeyword()
	*w = Word(name)
	return nil
}

// The choices of a Selection. The first of each list is the default.
const (
	SelectHeads Word = "heads"
	SelectAll   Word = "all" // every frame of the current state of an entry

	ChildrenRequire Word = "require" // an entry that is not ready is an error
	ChildrenBuild   Word = "build"   // it is made ready first
	ChildrenSkip    Word = "skip"    // one without a frame is left out, any other is used as it is

	StaleUse     Word = "use"
	StaleExclude Word = "exclude"
	StaleFail    Word = "fail"

	BindsNode   Word = "node"   // the basis names the state of the directory
	BindsInputs Word = "inputs" // it names only the path, and the entries by Bound

	BoundName    Word = "name"
	BoundKind    Word = "kind"
	BoundType    Word = "type"
	BoundAgent   Word = "agent"
	BoundOrigin  Word = "origin"
	BoundContent Word = "content"
)

// EveryType is the frame type that matches every type.
const EveryType = "*"

// Selection determines which frames of the entries of a directory are the
// inputs of a frame. It is part of the recipe, so that the inputs can be
// selected again.
type Selection struct {
	Type string `edn:"frame/type"` // EveryType for all types
	// Into is the type of the result if Type is EveryType. If an entry is a
	// directory that has a head of this type, only that head is selected from
	// it.
	Into     string `edn:"into,omitempty"`
	Select   Word   `edn:"select"`
	Children Word   `edn:"children"`
	OnStale  Word   `edn:"on-stale"`
	Binds    Word   `edn:"binds"`
	// Bound lists the parts of each frame that the basis holds if Binds is BindsInputs: name, kind
	// and content, and whatever else the policy reads. It is a part of the digest of a policy, so a
	// frame whose recipe lacks it is stale.
	Bound []Word `edn:"bound,omitempty"`
}

// Result returns the frame type of the result.
func (s Selection) Result() string {
	if s.Type == EveryType {
		return s.Into
	}
	return s.Type
}

// Child is a frame of an entry of a directory.
type Child struct {
	Name    string
	Path    string
	Mode    id.Mode
	Node    id.ID // current state of the entry
	Frame   id.ID
	Type    string
	Agent   string
	Origin  Origin
	Content id.ID
	Bytes   int
	// State is the state of the head; it is empty where it has no effect on the
	// selection.
	State HeadState
}

// Selected are the inputs of a directory frame, ordered by node id and then by
// frame id; with BindsInputs by what the basis holds of them, the name first.
type Selected struct {
	Children []Child
	// Stale is the number of frames that are not fresh, including those that
	// were left out. For an OnStale other than use it is counted only if states
	// was requested.
	Stale int
	// StalePaths are the paths of the stale frames.
	StalePaths []string
}

// Inputs returns the basis of a frame that is made from the selected frames by
// the policy with the given digest.
func (s *Selected) Inputs(sel Selection, now Version, path, digest string) []Input {
	list := make([]Input, 0, len(s.Children)+3)
	if sel.Binds == BindsInputs {
		list = append(list, Input{Kind: id.InputPath, Text: []byte(path)})
	} else {
		list = append(list, Input{Kind: id.InputNode, ID: now.Node})
	}
	if sel.Binds == BindsInputs {
		list = append(list, s.contents(sel)...)
	} else {
		for _, c := range s.Children {
			list = append(list, Input{Kind: id.InputFrame, ID: c.Frame})
		}
	}
	return append(list, Input{Kind: id.InputType, Text: []byte(sel.Result())}, Input{Kind: id.InputPolicy, Text: []byte(digest)})
}

// Context returns the context id of a directory: the names and contents of the
// selected frames.
func (s *Selected) Context(scheme id.Scheme) id.ID {
	return scheme.Context(IDInputs(s.contents(Selection{})))
}

// contents returns names and content ids, ordered by them: the order of node ids
// would bind the result to more than its inputs.
func (s *Selected) contents(sel Selection) []Input {
	children := slices.Clone(s.Children)
	slices.SortFunc(children, sel.compareBound)
	list := make([]Input, len(children))
	for i, c := range children {
		list[i] = Input{Kind: id.InputChild, ID: c.Content, Text: []byte(sel.bound(c))}
	}
	return list
}

// bound returns the name of a child and, after a slash, which no name contains, what else the basis
// holds of it: the kind unless it is a file, type, agent and origin.
func (s Selection) bound(c Child) string {
	var facts []string
	for _, what := range s.Bound {
		switch what {
		case BoundKind:
			if kind := c.Mode.Kind(); kind != id.File.Kind() {
				facts = append(facts, kind)
			}
		case BoundType:
			facts = append(facts, c.Type)
		case BoundAgent:
			facts = append(facts, c.Agent)
		case BoundOrigin:
			facts = append(facts, string(c.Origin))
		}
	}
	if len(facts) == 0 {
		return c.Name
	}
	return c.Name + "/" + strings.Join(facts, " ")
}

// compareBound orders children by what the basis holds of them.
func (s Selection) compareBound(a, b Child) int {
	return cmp.Or(
		strings.Compare(a.Name, b.Name),
		strings.Compare(s.bound(a), s.bound(b)),
		a.Content.Compare(b.Content),
	)
}

// IDInputs converts inputs to the form of package id.
func IDInputs(inputs []Input) []id.Input {
	list := make([]id.Input, len(inputs))
	for i, in := range inputs {
		list[i] = id.Input{Kind: in.Kind, ID: in.ID, Text: string(in.Text)}
	}
	return list
}

// Select returns the frames of the direct entries of a directory that sel
// selects. If states is set, it also computes the state of every head, which
// costs more.
func (v *Snapshot) Select(ctx context.Context, dir string, sel Selection, states bool) (*Selected, error) {
	s, err := v.frames().selected(ctx, dir, sel, states)
	return s, readError(err)
}

func (r *frames) selected(ctx context.Context, dir string, sel Selection, states bool) (*Selected, error) {
	tops, err := r.entries(ctx, dir, sel.Type)
	if err != nil {
		return nil, err
	}
	out := &Selected{}
	states = states || sel.OnStale != StaleUse
	for _, t := range sel.narrow(tops) {
		if states {
			if t.State, err = r.stateOf(ctx, t); err != nil {
				return nil, err
			}
			if t.State != Fresh {
				out.Stale++
				out.StalePaths = append(out.StalePaths, t.Path)
				if sel.OnStale == StaleExclude {
					continue
				}
			}
		}
		if sel.Select != SelectAll {
			out.Children = append(out.Children, t.child())
			continue
		}
		all, err := r.everyFrame(ctx, t)
		if err != nil {
			return nil, err
		}
		out.Children = append(out.Children, all...)
	}
	if sel.Binds == BindsInputs {
		slices.SortFunc(out.Children, sel.compareBound)
		return out, nil
	}
	slices.SortFunc(out.Children, func(a, b Child) int {
		return cmp.Or(a.Node.Compare(b.Node), a.Frame.Compare(b.Frame))
	})
	return out, nil
}

// narrow returns the heads that match the type of the selection.
func (s Selection) narrow(tops []*top) (list []*top) {
	whole := map[string]bool{} // entries that one head represents
	if s.Type == EveryType {
		for _, t := range tops {
			if t.Mode == id.Dir && t.Type == s.Into {
				whole[t.Path] = true
			}
		}
	}
	for _, t := range tops {
		if s.Type == t.Type || s.Type == EveryType && (!whole[t.Path] || t.Type == s.Into) {
			list = append(list, t)
		}
	}
	return list
}

// notReady returns the directories in dir that are in the tree and have frames of the
// type below them but are not in ready.
func (r *frames) notReady(ctx context.Context, dir string, sel Selection, ready map[string]bool) (list []string, err error) {
	prefix := prefixOf(dir)
	frameType := sel.Type
	if frameType == EveryType {
		frameType = ""
	}
	described, err := r.described(ctx, dir, prefix)
	if err != nil {
		return nil, err
	}
	for _, found := range described {
		name, _, _ := strings.Cut(strings.TrimPrefix(found, prefix), "/")
		child := prefix + name
		if ready[child] {
			continue
		}
		now, err := r.current(ctx, child)
		if err != nil {
			return nil, err
		}
		if now == nil { // deleted, and something below it was added later
			continue
		}
		below, err := r.hasBelow(ctx, child, frameType)
		if err != nil {
			return nil, err
		}
		if below {
			list = append(list, child)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// entriesBelow begins a query with found, which has the values of a column between ?1 and
// ?2: of each entry of a directory, whose prefix ends before byte ?3, the entry itself and
// the first value below it. It takes one step for each, however many values are below.
func entriesBelow(table, column string) string {
	return strings.NewReplacer("TABLE", table, "COLUMN", column).Replace(`WITH RECURSIVE found(value) AS (
	SELECT min(COLUMN) FROM TABLE WHERE COLUMN > ?1 AND COLUMN < ?2
	UNION ALL
	SELECT (SELECT min(COLUMN) FROM TABLE WHERE COLUMN >= CAST(CASE instr(substr(found.value, ?3), x'2f')
		WHEN 0 THEN found.value || x'00'
		ELSE substr(found.value, 1, ?3 + instr(substr(found.value, ?3), x'2f') - 2) || '0' END AS BLOB)
		AND COLUMN < ?2)
	FROM found WHERE found.value IS NOT NULL)
`)
}

var dirsBelow = entriesBelow("tops", "dir") + "SELECT value FROM found WHERE value IS NOT NULL"

// described returns, for each directory in dir, that directory if an entry of it has a
// head, and the first one below it of which an entry has one.
func (r *frames) described(ctx context.Context, dir, prefix string) (list []string, err error) {
	_, end := span(dir)
	err = r.each(ctx, func(rows *sql.Rows) error {
		var found []byte
		err := rows.Scan(&found)
		list = append(list, string(found))
		return err
	}, dirsBelow, []byte(prefix), end, len(prefix)+1)
	return list, err
}

// hasBelow reports whether a path below a directory has a frame of the type that describes
// what is there.
func (r *frames) hasBelow(ctx context.Context, dir, frameType string) (bool, error) {
	var found int
	err := r.row(ctx, []any{&found}, "SELECT EXISTS (SELECT 1 "+topsJoined+
		" WHERE t.path > ?1 AND t.path < ?2 AND (?3 = '' OR t.type = ?3) AND "+topIsThere+")",
		[]byte(dir+"/"), []byte(after(dir)), frameType)
	return found == 1, err
}

// prefixOf returns the prefix of all paths below a directory.
func prefixOf(dir string) string {
	if dir == "" {
		return ""
	}
	return dir + "/"
}

// after returns the first path that follows everything below a directory, empty
// for the root.
func after(dir string) string {
	if dir == "" {
		return ""
	}
	return dir + "0" // the byte after the slash
}
