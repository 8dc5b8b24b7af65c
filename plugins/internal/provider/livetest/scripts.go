package livetest

// Name is what the model of Scripts is called.
const Name = "talkative"

// Triggers: the last word of a message chooses what the model says.
const (
	Greeting  = "hello"
	Counting  = "count"
	Grading   = "grade"
	CallsTool = "forecast"
	Explains  = "explain" // a text, then a call
	Thinks    = "ponder"
)

// Text is what the model answers to Greeting, whole.
const Text = "The répondeur says: good day, 世界! All servers answer; none sleeps."

// Before is what the model says before the call of Explains.
const Before = "Looking outside:"

// Thought and Conclusion are the reasoning and the answer to Thinks.
const (
	Thought    = "Weighing it slowly."
	Conclusion = "Heavy."
)

// Grade is the value that it answers to Grading.
const Grade = `{"score":0.5}`

// Scripts are what the model can say. Besides the triggers above it knows the
// last words of the questions of a probe.
func Scripts() []Script {
	return []Script{
		{Triggers: []string{Greeting, "please."}, Words: []string{"The", "▁répondeur", "▁says:", "▁good", "▁day,", "▁世", "界!", "▁All", "▁servers", "▁answer;", "▁none", "▁sleeps."}},
		{Triggers: []string{Counting, "break."}, Endless: true, Words: []string{"▁one", "▁two", "▁three", "▁four", "▁five", "▁six", "▁seven", "▁eight", "▁nine", "▁ten", "▁once", "▁more:"}},
		{Triggers: []string{Grading}, Words: []string{`{"`, `score`, `":`, `0.5`, `}`}},
		{Triggers: []string{"have?"}, Words: []string{`{"legs"`, `:4}`}},
		{Triggers: []string{CallsTool, "tool."}, Words: []string{"[[call:", "▁weather", "(", `{"city"`, `:"`, `Oslo`, `"}`, ")]]"}},
		{Triggers: []string{Explains}, Words: []string{"Looking", "▁outside:", "▁[[", "call:", "▁weather({", `"city":`, `"Bergen`, `"})]]`}},
		{Triggers: []string{Thinks}, Words: []string{"<think>", "Weighing", "▁it", "▁slowly.", "</think>", "Heavy."}},
	}
}
