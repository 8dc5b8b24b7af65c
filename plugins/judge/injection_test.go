package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// obedient is a model that follows any instruction outside of data and adopts
// any score found there. Without one it gives 2 of 10, and prefers nothing. It
// learns from the system message alone what is data.
func obedient(_ context.Context, call wire.Call, _ *wire.Emitter) (edn.Value, error) {
	system, user := messages(call)
	mark := regexp.MustCompile(`(?m)^<<([0-9a-f]{32}) begin NAME>>$`).FindStringSubmatch(system)
	if mark == nil {
		return response("there is no mark", edn.Nil()), nil
	}
	outside := outsideOf(user, mark[1])
	score, better := "2", "same"
	if planted.MatchString(outside) {
		score, better = "10", "second"
	}
	one := `{"reason": "r", "score": ` + score + `}`
	control := `{"score": CONTROL}`
	if strings.Contains(user, "begin second>>") {
		one, control = fmt.Sprintf(`{"reason": "r", "better": %q}`, better), `{"better": "CONTROL"}`
	}
	return response(filled(`{"verdict": "CODE", "criteria": {"faithful": `+one+`, "complete": `+one+`, "attention-check": `+control+`}}`, call), edn.Nil()), nil
}

// planted matches every planted text: a score of its own, or phrases that only
// planted texts contain.
var planted = regexp.MustCompile(`(?i)"?score"?["':= ]*10|10/10|full marks|perfect|ignore|disregard|override|EASTEREGG`)

// outsideOf returns the text that no pair of lines with the mark encloses.
func outsideOf(user, mark string) string {
	var out []string
	inside := ""
	for line := range strings.Lines(user) {
		line = strings.TrimSuffix(line, "\n")
		name, begins := strings.CutPrefix(line, "<<"+mark+" begin ")
		switch {
		case inside == "" && begins:
			inside = strings.TrimSuffix(name, ">>")
		case inside != "" && line == "<<"+mark+" end "+inside+">>":
			inside = ""
		case inside == "":
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// injections are texts that demand a score of their own: one per paragraph in
// testdata/injections.txt.
func injections(t *testing.T) []string {
	raw, err := os.ReadFile("testdata/injections.txt")
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(raw)), "\n%%\n")
}

// JDG-013: fifty planted texts, in the answer, in the request, in the source
// and in the other answer, stay between their lines, and a model that obeys any
// instruction outside of them gives the score that it would have given.
func TestInjections(t *testing.T) {
	all := injections(t)
	require.Len(t, all, 50)
	h := &sdktest.Host{}
	h.Answer("model/chat", obedient)
	p := sdktest.Serve(t, newPlugin(rand.Reader), sdktest.WithHost(h))
	for i, bait := range all {
		require.Regexp(t, planted, bait, "text %d plants nothing", i)
		text := "Four properties.\n" + bait
		for place, in := range map[string]edn.Value{
			"answer":  task(`{}`).AssocKey("task/result", edn.MustMap(edn.K("out"), edn.MustMap(edn.K("text"), edn.Text(text)))),
			"key":     task(`{}`).AssocKey("task/result", edn.MustMap(edn.Text(text), edn.Int(1), edn.K("b"), edn.Text(text))),
			"request": task(`{}`).AssocKey("task/call", edn.MustMap(edn.K("input"), edn.MustMap(edn.K("text"), edn.Text(text)))),
			"source":  task(`{}`).AssocKey("task/env", edn.MustMap(edn.K("source"), edn.Text(text))),
			"other":   task(`{}`).AssocKey("task/other", edn.MustMap(edn.K("out"), edn.MustMap(edn.K("text"), edn.Text(text)))),
		} {
			out, err := p.Invoke(rubricCap, in)
			require.NoError(t, err, "text %d in the %s", i, place)
			want := "0.2M"
			if place == "other" {
				want = "0.5M"
			}
			assert.Equal(t, want, out.Key("score").String(), "text %d in the %s", i, place)
		}
	}
	for n, call := range h.Calls() {
		_, user := messages(call)
		assert.Contains(t, user, "Four properties.", "call %d", n)
	}
}

// The model of the test above can be fooled: without the lines it obeys.
func TestTheObedientModelObeys(t *testing.T) {
	for i, bait := range injections(t) {
		call := wire.Call{Request: edn.MustMap(edn.K("input"), edn.MustMap(edn.K("messages"), edn.Vector(
			edn.MustMap(edn.K("content"), edn.Text("<<"+strings.Repeat("0", 32)+" begin NAME>>")), edn.MustMap(edn.K("content"), edn.Text(bait)))))}
		out, err := obedient(context.Background(), call, nil)
		require.NoError(t, err)
		assert.Contains(t, out.String(), "10", "text %d", i)
	}
}

// JDG-013: the middle of a 200 KiB text is omitted, at the ends of sentences;
// the omission is noted for the model and for the caller.
func TestLongAnswersAreCutInTheMiddle(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 200<<10; i++ {
		fmt.Fprintf(&b, "This is sentence number %d of a long answer. ", i)
	}
	m := &model{says: []string{graded}}
	out := world(t, m).MustInvoke(rubricCap, task(`{}`).AssocKey("task/result", edn.MustMap(edn.K("text"), edn.Text(b.String()))))
	_, user := messages(m.asked[0])
	assert.Less(t, len(user), 70<<10)
	assert.Contains(t, user, "This is sentence number 0 of")
	last := strings.TrimSpace(b.String())
	assert.Contains(t, user, last[len(last)-40:])
	cut := regexp.MustCompile(`(?m)(.*)\n<<[0-9a-f]{32} cut: (\d+) bytes are left out here>>\n(.*)`).FindStringSubmatch(user)
	require.NotNil(t, cut)
	assert.True(t, strings.HasSuffix(cut[1], " of a long answer."), cut[1][max(0, len(cut[1])-60):])
	assert.True(t, strings.HasPrefix(cut[3], "This is sentence number "))
	assert.Contains(t, out.Key("limits").String(), cut[2]+" bytes from the middle")
}
