package wire

// What a plugin can make its host hold or do. Sizes are in bytes.
const (
	// MaxNotice is the largest answer of an RPC that has nothing to tell, and
	// MaxPrinted the largest message of go-plugin's stream of printed text.
	MaxNotice  = 4 << 10
	MaxPrinted = 64 << 10
	// MaxHeaders are the headers and trailers of one RPC, the status included.
	MaxHeaders = 64 << 10
	// MaxDescription is the largest answer of Describe and Configure.
	MaxDescription = 4 << 20
	// MaxHealth is the largest statement of health.
	MaxHealth = 1 << 20
	// MaxEvents is how many events one call may have.
	MaxEvents = 1 << 18
	// MaxBlobs are the blobs of one call that wait for their payload.
	MaxBlobs = MaxMessage / BlobThreshold
	// MaxRestored is what the references of one payload may bring in, each of
	// them counted.
	MaxRestored = 4 * MaxMessage
	// MaxErrorDetails are the details of an error, with those of its causes.
	MaxErrorDetails = 256 << 10
	// MaxFrames are the frames of one message of a stream of calls.
	MaxFrames = 16 << 10
	// MaxOwed are the calls on a stream of calls that were given up and whose
	// answers the plugin still owes.
	MaxOwed = 1024

	// MaxHostConnections are the connections to the host service of one plugin.
	MaxHostConnections = 8
	// MaxHostCalls are the requests to the host in flight at one time, and
	// MaxHostStreams the RPCs, which leaves room for operations on the state.
	MaxHostCalls   = 128
	MaxHostStreams = MaxHostCalls + 32
	// MaxHostCallsPerCall are the requests to the host on behalf of one call.
	MaxHostCallsPerCall = 64
	// MaxStateKeys and MaxStateBytes bound the store of one plugin.
	MaxStateKeys  = 4096
	MaxStateBytes = 8 << 20
	// MaxLine is a line of a log; MaxLogBurst bytes may be logged at once and
	// MaxLogRate a second after that.
	MaxLine     = 128 << 10
	MaxLogBurst = 8 << 20
	MaxLogRate  = 1 << 20
	// MaxSocketFiles and MaxSocketBytes bound what lies in the directory of the
	// sockets of a process, which may be in memory.
	MaxSocketFiles = 64
	MaxSocketBytes = 1 << 20
)

// Bound is the limit of one resource that a plugin can make grow.
type Bound struct {
	// Name is short and unique.
	Name string
	// Resource says what is counted and Limit how much of it there may be.
	Resource string
	Limit    int
	// Beyond is what happens to the plugin that asks for more.
	Beyond string
}

// Bounds lists every resource of a host that one plugin can make grow, with its
// limit. CONTRACT.md shows the same table.
func Bounds() []Bound {
	const broken = "the process is ended, the plugin quarantined: `:runtime/protocol`"
	const call = "the call ends with `:runtime/protocol`"
	return []Bound{
		{"broker", "messages on the stream of the broker", 0, broken},
		{"printed", "bytes of a message of `StreamStdio`", MaxPrinted, "the stream ends, what is printed later is not kept"},
		{"headers", "bytes of headers and trailers of an RPC", MaxHeaders, call},
		{"message", "bytes of a message", MaxMessage, call},
		{"notice", "bytes of an answer of `EndRun`, `Drain` and `Shutdown`", MaxNotice, "it counts as no answer"},
		{"description", "bytes of an answer of `Describe` and `Configure`", MaxDescription, "the start fails with `:runtime/protocol`"},
		{"health", "bytes of a `HealthEvent`", MaxHealth, "it counts as no answer to a probe"},
		{"events", "events of a call", MaxEvents, call},
		{"blob-name", "bytes of the name of a blob", blobName, call},
		{"blobs", "blobs of a call that wait for their payload", MaxBlobs, call},
		{"blob-bytes", "bytes of blobs of a call that wait for their payload", MaxMessage, call},
		{"restored", "bytes that the references of a payload bring in", MaxRestored, call},
		{"error-details", "bytes of the details of an error and its causes", MaxErrorDetails, "the details are left out; the error says how many bytes they had"},
		{"frames", "frames of a message of `Calls`", MaxFrames, "the stream ends; its calls fail with `:runtime/protocol`"},
		{"credit", "bytes of unread events of a call on `Calls`", eventCredit, call},
		{"owed", "answers on `Calls` that the plugin owes to calls that were given up", MaxOwed, "the stream ends; its calls fail with `:runtime/protocol`"},
		{"connections", "connections to the host service", MaxHostConnections, "more are closed as they come"},
		{"streams", "open RPCs on a connection to the host service", MaxHostStreams, "more are refused by HTTP/2"},
		{"host-calls", "requests to the host in flight", MaxHostCalls, "`:runtime/overloaded`"},
		{"host-calls-of-call", "requests to the host on behalf of one call", MaxHostCallsPerCall, "`:plan/too-large`"},
		{"state-key", "bytes of a key of the state", MaxStateKey, "`:input/invalid`"},
		{"state-value", "bytes of a value of the state", MaxStateValue, "`:input/invalid`"},
		{"state-keys", "keys of the state", MaxStateKeys, "`:runtime/overloaded`"},
		{"state-bytes", "bytes of the state", MaxStateBytes, "`:runtime/overloaded`"},
		{"line", "bytes of a line of the log", MaxLine, "the rest of the line is left out; the line says how much"},
		{"log", "bytes of log at once, and an eighth of it a second after that", MaxLogBurst, "lines are left out; the log says how many"},
		{"socket-files", "files in the directory of its sockets", MaxSocketFiles, broken},
		{"socket-bytes", "bytes of the files in the directory of its sockets", MaxSocketBytes, broken},
	}
}
