package livetest

// Name is the name of the model of Scripts.
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

// Text is the whole answer of the model to Greeting.
const Text = "The répondeur says: good day, 世界! All servers answer; none sleeps."

// Before is the text before the tool call in the answer to Explains.
const Before = "Looking outside:"

// Thought and Conclusion are the reasoning and the answer to Thinks.
const (
	Thought    = "Weighing it slowly."
	Conclusion = "Heavy."
)

// Grade is the answer of the model to Grading.
const Grade = `{"score":0.5}`

// Scripts returns the scripts of the model. Besides the triggers above it
// includes the last words of the questions of a probe.
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
