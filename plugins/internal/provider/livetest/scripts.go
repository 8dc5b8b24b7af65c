package livetest

// Name is what the model of Scripts is called.
const Name = "talkative"

// Triggers: the last word of a message chooses what the model says.
const (
	Greeting  = "hello"
	Counting  = "count"
	Grading   = "grade"
	CallsTool = "forecast"
)

// Text is what the model answers to Greeting, whole.
const Text = "The répondeur says: good day, 世界! All servers answer; none sleeps."

// Grade is the value that it answers to Grading.
const Grade = `{"score":0.5}`

// Scripts are what the model can say.
func Scripts() []Script {
	return []Script{
		{Trigger: Greeting, Words: []string{"The", "▁répondeur", "▁says:", "▁good", "▁day,", "▁世", "界!", "▁All", "▁servers", "▁answer;", "▁none", "▁sleeps."}},
		{Trigger: Counting, Endless: true, Words: []string{"▁one", "▁two", "▁three", "▁four", "▁five", "▁six", "▁seven", "▁eight", "▁nine", "▁ten", "▁once", "▁more:"}},
		{Trigger: Grading, Words: []string{`{"`, `score`, `":`, `0.5`, `}`}},
		{Trigger: CallsTool, Words: []string{"[[call:", "▁weather", "(", `{"city"`, `:"`, `Oslo`, `"}`, ")]]"}},
	}
}
