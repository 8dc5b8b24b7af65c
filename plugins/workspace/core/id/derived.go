package id

import (
	"strconv"
)

// Node returns the id of one state of one path. The root has the empty path.
func (s Scheme) Node(path string, mode Mode, content ID) ID {
	e := begin(s.other, domainNode)
	e.text(path)
	e.text(mode.text())
	e.id(content)
	return e.sum(Node)
}

// Input is one entry of a basis: something that a frame was made from. Kind is
// the keyword of the entry without its colon; the other fields depend on it.
type Input struct {
	Kind string
	ID   ID     // of node, frame, prompt, context, params; the content of a child
	Text string // path of path, name of a child, type of type, digest of policy
}

// The kinds of basis entries.
const (
	InputNode    = "node"
	InputPath    = "path"
	InputFrame   = "frame"
	InputChild   = "child"
	InputType    = "type"
	InputPolicy  = "policy"
	InputPrompt  = "prompt"
	InputContext = "context"
	InputParams  = "params"
)

// Basis returns the id of the ordered inputs.
func (s Scheme) Basis(inputs []Input) ID {
	e := begin(s.other, domainBasis)
	e.list(len(inputs), func(i int) {
		e.text(inputs[i].Kind)
		e.text(inputs[i].Text)
		e.id(inputs[i].ID)
	})
	return e.sum(Basis)
}

// Classes of frame ids.
const (
	byContent = 1 // authored, extracted and synthesized frames
	bySample  = 2 // generated frames, and synthesized ones that can differ
)

// Frame returns the id of an authored, extracted or synthesized frame.
func (s Scheme) Frame(path string, basis ID, agent, frameType string, content ID) ID {
	e := s.frame(byContent, path, basis, agent, frameType)
	e.id(content)
	return e.sum(Frame)
}

// Generated returns the id of a frame whose content a model wrote. sample
// numbers the repetitions with equal inputs.
func (s Scheme) Generated(path string, basis ID, agent, frameType string, sample uint64) ID {
	e := s.frame(bySample, path, basis, agent, frameType)
	e.number(sample)
	return e.sum(Frame)
}

func (s Scheme) frame(class uint64, path string, basis ID, agent, frameType string) *encoder {
	e := begin(s.other, domainFrame)
	e.number(class)
	e.text(path)
	e.id(basis)
	e.text(agent)
	e.text(frameType)
	return e
}

// Stored holds the fields that a record id covers: a whole frame. Recipe and
// Metadata are canonical EDN.
type Stored struct {
	Frame     ID
	Content   ID
	Origin    string
	Recipe    string
	Metadata  string
	CreatedAt int64 // nanoseconds since 1970
}

// Record returns the id of a stored frame.
func (s Scheme) Record(f Stored) ID {
	e := begin(s.other, domainRecord)
	e.id(f.Frame)
	e.id(f.Content)
	e.text(f.Origin)
	e.text(f.Recipe)
	e.text(f.Metadata)
	e.text(strconv.FormatInt(f.CreatedAt, 10))
	return e.sum(Record)
}

// FrameSet returns the id of a set of frames.
func (s Scheme) FrameSet(frames []ID) ID { return s.NewFrameTree(frames...).Root() }

// Head is the current frame of a type. Mark is not empty if the head is invalidated.
type Head struct {
	Type  string
	Frame ID
	Mark  string
}

// PathState holds the state of one path that a state id covers.
type PathState struct {
	Path     string
	Node     ID
	FrameSet ID
	Heads    []Head
}

// StateRoot returns the id of a state. The paths must be sorted, and the heads
// of each path by type.
func (s Scheme) StateRoot(paths []PathState) ID {
	e := begin(s.other, domainState)
	e.list(len(paths), func(i int) {
		p := paths[i]
		e.text(p.Path)
		e.id(p.Node)
		e.id(p.FrameSet)
		e.list(len(p.Heads), func(j int) {
			e.text(p.Heads[j].Type)
			e.id(p.Heads[j].Frame)
			e.text(p.Heads[j].Mark)
		})
	})
	return e.sum(State)
}

// ChainSize is the length of a value of the chain of the log.
const ChainSize = maxSum

// Chain returns the chain value of a record of the log from the previous one.
func (a Alg) Chain(previous [ChainSize]byte, kind byte, payload []byte) [ChainSize]byte {
	e := begin(a, domainChain)
	e.length(ChainSize)
	e.b = append(e.b, previous[:]...)
	e.number(uint64(kind))
	e.length(len(payload))
	e.b = append(e.b, payload...)
	return e.sum(State).sum
}

// Prompt returns the id of a prompt that consists of these texts.
func (s Scheme) Prompt(parts ...string) ID { return s.texts(domainPrompt, Prompt, parts) }

// Params returns the id of parameters in canonical EDN.
func (s Scheme) Params(canonical string) ID {
	return s.texts(domainParams, Params, []string{canonical})
}

func (s Scheme) texts(domain Domain, kind Kind, parts []string) ID {
	e := begin(s.other, domain)
	e.list(len(parts), func(i int) { e.b = append(e.b, parts[i]...) })
	return e.sum(kind)
}

// Context returns the id of the text that a model was given: of a file its node
// id, of a directory the names and contents of the child frames used.
func (s Scheme) Context(inputs []Input) ID {
	e := begin(s.other, domainContext)
	e.list(len(inputs), func(i int) {
		e.text(inputs[i].Kind)
		e.text(inputs[i].Text)
		e.id(inputs[i].ID)
	})
	return e.sum(Context)
}

// Sum returns the hash of bytes that have no domain, such as a file of the data
// directory.
func (a Alg) Sum(b []byte) [maxSum]byte { return sumOf(a, b[:len(b):len(b)]) }
