package language

import "time"

// humanBlock declares a capability without a plugin.
var humanBlock = Block{
	Name: "human", Label: LabelQualified,
	Doc: "a capability whose answers people give, with \"ferment runs answer\" or over HTTP; it needs a daemon with a journal on disk",
	Attrs: []Attr{
		{
			Name: "intents", Type: set(ref("intent")).between(1, 1024), Required: true, Reload: ReloadUse, Serves: "JRN-045",
			Doc: "intents that it serves; their schemas are those of question and answer",
		},
		{
			Name: "deadline", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "JRN-045",
			Doc: "how long a question waits for its answer; default: until the deadline of the run",
		},
		{
			Name: "on_deadline", Type: enum("deny", "default", "escalate"), Default: `"deny"`,
			Reload: ReloadUse, Serves: "JRN-045",
			Doc: "deny: the call fails; default: the attribute default is the answer; escalate: the next " +
				"candidate is called, as after other failures of class switch",
		},
		{
			Name: "default", Type: edntext, Reload: ReloadUse, Serves: "JRN-045",
			Doc: "the answer after the deadline, if on_deadline is default",
		},
	},
}
