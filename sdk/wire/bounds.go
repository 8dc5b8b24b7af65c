package wire

// Limits on the resources of a host that a plugin can consume. Sizes are in
// bytes.
const (
	// MaxNotice is the largest answer of an RPC without content, MaxPrinted the
	// largest message of go-plugin's stream of printed text.
	MaxNotice  = 4 << 10
	MaxPrinted = 64 << 10
	// MaxHeaders limits the headers and trailers of one RPC, including the
	// status.
	MaxHeaders = 64 << 10
	// MaxDescription is the largest answer of Describe and Configure.
	MaxDescription = 4 << 20
	// MaxHealth is the largest health event. MaxHealthBurst events are used at
	// once, then one per second.
	MaxHealth      = 1 << 20
	MaxHealthBurst = 10
	// maxEvents is the maximum number of events of one call.
	maxEvents = 1 << 18
	// maxBlobs is the maximum number of blobs of one call that no payload has
	// used yet.
	maxBlobs = MaxMessage / BlobThreshold
	// MaxRestored limits the bytes that the references of one payload expand
	// to, with every reference counted.
	MaxRestored = 4 * MaxMessage
	// MaxErrorDetails limits the details of an error and its causes.
	MaxErrorDetails = 256 << 10
	// MaxFrames is the maximum number of frames in one message of a stream of
	// calls.
	MaxFrames = 16 << 10
	// MaxOwed is the maximum number of abandoned calls on a stream of calls
	// that the plugin has not answered.
	MaxOwed = 1024

	// MaxHostConnections is the maximum number of connections of one plugin to
	// the host service.
	MaxHostConnections = 8
	// MaxHostCalls limits the concurrent requests to the host, MaxHostStreams
	// the concurrent RPCs including state operations.
	MaxHostCalls   = 128
	MaxHostStreams = MaxHostCalls + 32
	// MaxHostCallsPerCall limits the concurrent requests to the host on behalf of
	// one call, MaxHostCallsTotal all of them: so many, and one more for each
	// second that the call lasts. A call without end, such as a watch, can make
	// requests as long as it lasts.
	MaxHostCallsPerCall = 64
	MaxHostCallsTotal   = 10_000
	// MaxStateKeys and MaxStateBytes limit the store of one plugin.
	MaxStateKeys  = 4096
	MaxStateBytes = 8 << 20
	// MaxLine is the longest log line. MaxLogBurst bytes may be logged at once,
	// then MaxLogRate bytes per second.
	MaxLine     = 128 << 10
	MaxLogBurst = 8 << 20
	MaxLogRate  = 1 << 20
	// MaxSocketFiles and MaxSocketBytes limit the contents of the socket
	// directory of a process, which may be in memory.
	MaxSocketFiles = 64
	MaxSocketBytes = 1 << 20
)

// Bound is the limit of one resource that a plugin can consume.
type Bound struct {
	// Name is the short, unique name of the bound.
	Name string
	// Resource is the unit that is counted, Limit the maximum.
	Resource string
	Limit    int
	// Beyond is the reaction to exceeding the limit.
	Beyond string
}

// Bounds lists every host resource that one plugin can consume, with its limit.
// CONTRACT.md has the same table.
func Bounds() []Bound {
	const broken = "the process is stopped and the plugin quarantined: `:runtime/protocol`"
	const call = "the call ends with `:runtime/protocol`"
	return []Bound{
		{"broker", "messages on the stream of the broker", 0, broken},
		{"printed", "bytes of a message of `StreamStdio`", MaxPrinted, "the stream ends, later output is dropped"},
		{"headers", "bytes of headers and trailers of an RPC", MaxHeaders, call},
		{"message", "bytes of a message", MaxMessage, call},
		{"notice", "bytes of an answer of `EndRun`, `Drain` and `Shutdown`", MaxNotice, "it counts as no answer"},
		{"description", "bytes of an answer of `Describe` and `Configure`", MaxDescription, "the start fails with `:runtime/protocol`"},
		{"health", "bytes of a `HealthEvent`", MaxHealth, "it counts as no answer to a probe"},
		{"health-rate", "events of a stream of `Health` at once, then one per second", MaxHealthBurst, "only the newest event is used; the log has the number of the others"},
		{"events", "events of a call", maxEvents, call},
		{"blob-name", "bytes of the name of a blob", blobName, call},
		{"blobs", "blobs of a call that wait for their payload", maxBlobs, call},
		{"blob-bytes", "bytes of blobs of a call that wait for their payload", MaxMessage, call},
		{"restored", "bytes that the references of a payload expand to", MaxRestored, call},
		{"error-details", "bytes of the details of an error and its causes", MaxErrorDetails, "the details are dropped; the error has their size"},
		{"frames", "frames of a message of `Calls`", MaxFrames, "the stream ends; its calls fail with `:runtime/protocol`"},
		{"credit", "bytes of unread events of a call on `Calls`", eventCredit, call},
		{"owed", "unanswered abandoned calls on `Calls`", MaxOwed, "the stream ends; its calls fail with `:runtime/protocol`"},
		{"connections", "connections to the host service", MaxHostConnections, "further ones are closed at once"},
		{"streams", "open RPCs on a connection to the host service", MaxHostStreams, "further ones are rejected by HTTP/2"},
		{"host-calls", "requests to the host in flight", MaxHostCalls, "`:runtime/overloaded`"},
		{"host-calls-of-call", "requests to the host in flight on behalf of one call", MaxHostCallsPerCall, "`:runtime/overloaded`"},
		{"host-calls-total", "requests to the host on behalf of one call, and one more per second of it", MaxHostCallsTotal, "`:plan/too-large`"},
		{"state-key", "bytes of a key of the state", MaxStateKey, "`:input/invalid`"},
		{"state-value", "bytes of a value of the state", MaxStateValue, "`:input/invalid`"},
		{"state-keys", "keys of the state", MaxStateKeys, "`:runtime/overloaded`"},
		{"state-bytes", "bytes of the state", MaxStateBytes, "`:runtime/overloaded`"},
		{"line", "bytes of a line of the log", MaxLine, "the rest of the line is dropped; the line has its size"},
		{"log", "bytes of log at once, then an eighth of it per second", MaxLogBurst, "lines are dropped; the log has their number"},
		{"socket-files", "files in the socket directory", MaxSocketFiles, broken},
		{"socket-bytes", "bytes of the files in the socket directory", MaxSocketBytes, broken},
	}
}
